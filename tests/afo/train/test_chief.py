"""The chief's duties beside training, without servers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from afo import storage
from afo.errors import StorageError
from afo.job import Export
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.train import chief as module
from afo.train.chief import Chief
from afo.train.exports.version_reports import VersionReports

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def chief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chief:
    """Of generation 2, whose checkpoints lie in `tmp_path`."""
    task = SimpleNamespace(checkpoint_url=str(tmp_path), generation=2)
    job = SimpleNamespace(export=Export())
    setup: Any = SimpleNamespace(task=task, job=job, master=SimpleNamespace(report_ready=lambda _: None))
    begun = object.__new__(Chief)
    vars(begun).update(_setup=setup, _parameters=None, _eval_every=None, _reports=VersionReports(setup))
    vars(begun).update(_origin=SimpleNamespace(first_step=7, resume=lambda _: None))
    monkeypatch.setattr(module, "begin", lambda *_: m.ReadyReport(task=m.TaskId("worker", 0, 1), generation=2))
    for name in ("g000001-torn", "g000002-torn"):
        storage.write_bytes(f"{tmp_path}/{name}/deep.0.npy", b"1")
    return begun


def start(chief: Chief, resumes: bool) -> None:
    reply = m.ReadyReply(ready=resumes, first_step=7)
    if resumes:
        chief.resume(reply)
    else:
        assert chief.prepare(reply) == 7


@pytest.mark.parametrize("resumes", [True, False])
def test_it_removes_what_one_before_it_had_begun_to_save(tmp_path: Path, chief: Chief, resumes: bool) -> None:
    start(chief, resumes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resumes", [True, False])
def test_it_begins_where_that_cannot_be_removed(
    tmp_path: Path, chief: Chief, monkeypatch: pytest.MonkeyPatch, resumes: bool
) -> None:
    def delete(url: str, **_: Any) -> None:
        raise StorageError(f"cannot delete {url}")

    monkeypatch.setattr(storage, "delete", delete)
    start(chief, resumes)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("final", [True, False])
def test_it_says_that_it_saves_before_the_save(chief: Chief, final: bool) -> None:
    """Else a long one would look like a step that hangs."""
    told: list[str] = []

    def save(directory: str, *, final: bool) -> None:
        told.append("save")
        raise StorageError("enough")

    setup: Any = chief._setup
    setup.id, setup.progress = (
        m.TaskId(role="worker", index=0, attempt=1),
        SimpleNamespace(report=lambda at, now: told.append(at.phase)),
    )
    setup.master.report_saving = lambda _: told.append("told the AM")
    vars(chief).update(_writer=SimpleNamespace(begin=lambda: "g000002-a", save=save))
    with pytest.raises(StorageError, match="enough"):
        chief._write(Progress(phase="exporting" if final else "training", step=3), final=final)
    assert told == ["saving", "told the AM", "save"]
