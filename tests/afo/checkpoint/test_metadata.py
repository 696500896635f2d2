"""What a chief that begins again knows of the chiefs before it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from afo.checkpoint.manifest import Manifest, commit, manifest_name
from afo.checkpoint.metadata import Origin


def begun_again(checkpoints: Path) -> Origin:
    task: Any = SimpleNamespace(checkpoint_url=str(checkpoints), files_url="")
    origin = Origin(task, {}, ())
    origin.resume(7)
    return origin


def test_the_clock_goes_on_from_the_newest_manifest_that_can_be_read(tmp_path: Path) -> None:
    assert begun_again(tmp_path / "none").clock.ticks == ()
    for step, ticks in ((10, ((1.0, 10),)), (20, ((1.0, 10), (2.0, 20)))):
        saved = Manifest(
            version=3, generation=1, step=step, final=False, directory="g000001-d", rows={}, parts=(), clock=ticks
        )  # fmt: skip
        commit(str(tmp_path), saved)
    assert begun_again(tmp_path).clock.ticks == ((1.0, 10), (2.0, 20))
    (tmp_path / manifest_name(1, 30, False)).write_text('{"version": 3, "gen')
    origin = begun_again(tmp_path)
    assert origin.clock.step_at(1.5) == 10
    assert origin.clock.step_at(2.5) == 20
    assert origin.first_step == 7
