"""The files of a checkpoint on their way to the file system."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from afo import storage
from afo.checkpoint import manifest
from afo.checkpoint.manifest import Part
from afo.checkpoint.save import CheckpointWriter
from afo.errors import ClusterUnreachable, NoSpaceLeft, NotFound, StorageError
from afo.tables.save_times import SaveTimes

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
    assert [part.part for part in sending._send("g1", {}, SaveTimes())] == list(range(100))
    assert sorted(begun) == list(range(100))


def test_after_one_that_cannot_be_sent_no_more_are_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    sending, begun = writer(1000, 3, monkeypatch)
    with pytest.raises(ClusterUnreachable, match="g1/3 cannot be written"):
        sending._send("g1", {}, SaveTimes())
    assert len(begun) < 100


def saver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, send: Any) -> CheckpointWriter:
    """Of a model of nothing but its records, whose files `send` writes."""
    records = {"step": np.array(3), "positions": np.zeros((1, 3), np.int64)}
    state = SimpleNamespace(read_records=lambda: records)
    monkeypatch.setattr("afo.checkpoint.save.server_states", lambda _: [state])
    monkeypatch.setattr(CheckpointWriter, "_send", send)
    parameters: Any = SimpleNamespace(embeddings=None, tables=())
    origin: Any = SimpleNamespace(
        rules={}, sections=(), lineage=lambda *_: None, clock=SimpleNamespace(ticks=(), tick=lambda *_: None)
    )
    return CheckpointWriter(parameters, str(tmp_path), tmp_path / "scratch", 1, origin)


def test_files_that_were_removed_meanwhile_make_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(_: Any, directory: str, *__: Any) -> tuple[Part, ...]:
        storage.write_bytes(storage.join(str(tmp_path), directory, "t.0.npy"), b"1")
        manifest.remove_unfinished(str(tmp_path), 1)  # of a chief that takes this one for dead
        storage.write_bytes(storage.join(str(tmp_path), directory, "t.1.npy"), b"1")
        return tuple(Part("t", f"t.{part}.npy", part, 2, 1, 7) for part in range(2))

    saving = saver(tmp_path, monkeypatch, send)
    directory = saving.begin()
    with pytest.raises(NotFound, match=r"t\.0\.npy has been removed"):
        saving.save(directory, final=False)
    assert manifest.find_manifests(str(tmp_path)) == []
    assert not (tmp_path / directory).exists()


@pytest.mark.parametrize("deleted", [True, False])
def test_a_try_that_fails_leaves_nothing_and_says_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    def send(_: Any, directory: str, *__: Any) -> None:
        storage.write_bytes(storage.join(str(tmp_path), directory, "t.0.npy"), b"1")
        raise NoSpaceLeft("the disk is full")

    def delete(url: str, **_: Any) -> None:
        raise StorageError(f"cannot delete {url}")

    if not deleted:
        monkeypatch.setattr(storage, "delete", delete)
    saving = saver(tmp_path, monkeypatch, send)
    directory = saving.begin()
    with pytest.raises(NoSpaceLeft, match="the disk is full"):
        saving.save(directory, final=False)
    assert (tmp_path / directory).exists() is not deleted
