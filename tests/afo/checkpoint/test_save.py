"""The files of a checkpoint on their way to the file system."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from afo.checkpoint.manifest import Part
from afo.checkpoint.save import CheckpointWriter
from afo.embedding.save_times import SaveTimes
from afo.errors import ClusterUnreachable

pytestmark = pytest.mark.tensorflow


def writer(files: int, broken: int, monkeypatch: pytest.MonkeyPatch) -> tuple[CheckpointWriter, list[int]]:
    """Of so many files, of which one cannot be sent; and those that were begun."""
    begun: list[int] = []

    def upload(_: Any, directory: str, file: Any, times: SaveTimes) -> Part:
        begun.append(file.part)
        if file.part == broken:
            raise ClusterUnreachable(f"{directory}/{file.path} cannot be written")
        if file.part > broken >= 0:
            time.sleep(0.1)  # so that few are done before the broken one is noticed
        return Part(file.tensor, file.path.name, file.part, file.parts, 1, 7)

    parts = [SimpleNamespace(tensor="t", path=Path(f"{part}"), part=part, parts=files) for part in range(files)]
    monkeypatch.setattr(CheckpointWriter, "_files", lambda *_: iter(parts))
    monkeypatch.setattr(CheckpointWriter, "_upload", upload)
    return object.__new__(CheckpointWriter), begun


def test_all_are_sent_and_named_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, begun = writer(100, -1, monkeypatch)
    assert [part.part for part in sending._send("g1", [], SaveTimes())] == list(range(100))
    assert sorted(begun) == list(range(100))


def test_after_one_that_cannot_be_sent_no_more_are_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, begun = writer(1000, 3, monkeypatch)
    with pytest.raises(ClusterUnreachable, match="g1/3 cannot be written"):
        sending._send("g1", [], SaveTimes())
    assert len(begun) < 100
