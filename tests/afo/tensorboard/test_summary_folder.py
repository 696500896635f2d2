"""What of a job's summaries is copied to where TensorBoard looks: event files as they grow, and nothing else."""

import io
import os
from pathlib import Path

import msgspec
import pytest

from afo.errors import NoSpaceLeft, PermissionDenied, StorageError
from afo.tensorboard import summary_folder
from afo.tensorboard.summary_folder import MAX_DEPTH, SummaryFolder
from damaged_files import broken

EVENTS = "events.out.tfevents.1700000000.node-1.77.0.v2"


@pytest.fixture(params=["here", "elsewhere"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SummaryFolder:
    """Of a job without summaries so far; `elsewhere` reads them as those in HDFS are read."""
    if request.param == "elsewhere":
        monkeypatch.setattr(summary_folder, "LOCAL", "no scheme")
    (tmp_path / "job").mkdir()
    return SummaryFolder(str(tmp_path / "job" / "summaries"), tmp_path / "copy")


def written(tmp_path: Path, place: str, content: bytes = b"content") -> Path:
    path = tmp_path / "job" / "summaries" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def copied(folder: SummaryFolder) -> dict[str, bytes]:
    folder.refresh()
    found = (each for each in folder.path.rglob("*") if not each.is_dir())
    return {str(each.relative_to(folder.path)): each.read_bytes() for each in found}


def test_event_files_are_copied_and_nothing_beside_them(folder: SummaryFolder, tmp_path: Path) -> None:
    assert copied(folder) == {}
    for place in ("projector_config.pbtxt", "checkpoint", "model.ckpt-1.index", "metadata.tsv", f".{EVENTS}.ab.tmp",
                  "d/" * (MAX_DEPTH + 1) + EVENTS):  # fmt: skip
        written(tmp_path, f"run/{place}")
        written(tmp_path, place)
    written(tmp_path, EVENTS)
    deep = "run/" * MAX_DEPTH + EVENTS
    written(tmp_path, deep)
    assert copied(folder) == {EVENTS: b"content", deep: b"content"}


def test_what_grew_is_added_and_what_is_another_file_copied_anew(
    folder: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_folder, "_BLOCK", 2)
    place, other = f"train/{EVENTS}", f"eval/{EVENTS}"
    written(tmp_path, other, b"same")
    for content in (b"", b"one", b"one", b"one two", b"new"):
        written(tmp_path, place, content)
        assert copied(folder) == {place: content, other: b"same"}
    (folder.path / other).unlink()
    assert copied(folder) == {place: b"new"}, "what did not grow is not read again"


@pytest.mark.tensorflow
def test_tensorboard_reads_on_in_the_copy_that_it_has_open(
    folder: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    monkeypatch.setattr(summary_folder, "_BLOCK", 7)
    records = io.BytesIO()
    for step in (1, 2, 3, 4):
        RecordWriter(records).write(Event(step=step, file_version="brain.Event:2").SerializeToString())
    content, record = records.getvalue(), len(records.getvalue()) // 4
    place = f"train/{EVENTS}"
    written(tmp_path, place, content[:record])
    folder.refresh()
    reader = EventFileLoader(str(folder.path / place))
    assert [event.step for event in reader.Load()] == [1]
    # As the chief publishes it: another file under the name, with more in it. One look comes in the midst of a record.
    for end, steps in ((2 * record, [2]), (3 * record - 5, []), (4 * record, [3, 4])):
        written(tmp_path, f"new/{EVENTS}", content[:end]).replace(tmp_path / "job" / "summaries" / place)
        folder.refresh()
        assert [event.step for event in reader.Load()] == steps


def test_no_more_than_the_bounds(
    folder: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(summary_folder, "MAX_BYTES", 10)
    monkeypatch.setattr(summary_folder, "MAX_FILES", 3)
    for number in range(5):
        written(tmp_path, f"run-{number}/{EVENTS}", b"1234")
    for _ in range(2):
        assert sorted(map(len, copied(folder).values())) == [2, 4, 4]
    large, many = (record.message for record in caplog.records)
    assert "are larger than" in large
    assert "more than 3 event files" in many


def test_several_share_their_room(tmp_path: Path) -> None:
    folders: list[SummaryFolder] = []

    def room() -> int:
        return 10 - sum(folder.copied for folder in folders)

    for number in range(3):
        written(tmp_path, f"{number}/{EVENTS}", b"1234")
        folders.append(SummaryFolder(f"{tmp_path}/job/summaries/{number}", tmp_path / f"copy-{number}", room))
    for _ in range(2):
        assert [len(copied(folder)[EVENTS]) for folder in folders] == [4, 4, 2]
    written(tmp_path, f"0/{EVENTS}", b"1")
    assert [len(copied(folder)[EVENTS]) for folder in folders] == [1, 4, 4], "what is gone makes room"


def test_a_copy_that_nobody_wants_any_more_ends_with_its_block(
    folder: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_folder, "_BLOCK", 2)
    for place in ("a", "b"):
        written(tmp_path, f"{place}/{EVENTS}", b"123456")
    answers = iter((False, False, False))  # before the first file, and before each of its first blocks
    monkeypatch.setattr(folder, "_given_up", lambda: next(answers, True))
    assert list(copied(folder).values()) == [b"1234"]


@pytest.fixture
def here(tmp_path: Path) -> SummaryFolder:
    """On a local disk."""
    written(tmp_path, f"run/{EVENTS}")
    return SummaryFolder(str(tmp_path / "job" / "summaries"), tmp_path / "copy")


def test_no_link_is_followed(here: SummaryFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deeper").mkdir(parents=True)
    for place in (EVENTS, f"deeper/{EVENTS}"):
        (outside / place).write_bytes(b"secret")
    summaries = tmp_path / "job" / "summaries"
    (summaries / EVENTS).symlink_to(outside / EVENTS)
    (summaries / "linked").symlink_to(outside, target_is_directory=True)
    os.mkfifo(summaries / f"{EVENTS}.pipe")
    assert copied(here) == {f"run/{EVENTS}": b"content"}

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "summaries").symlink_to(outside, target_is_directory=True)
    assert copied(SummaryFolder(f"{tmp_path}/other/summaries", tmp_path / "copy-2")) == {}
    (tmp_path / "linked").symlink_to(tmp_path / "job")
    with pytest.raises(StorageError, match="not following links"):
        SummaryFolder(f"{tmp_path}/linked/summaries", tmp_path / "copy-3").refresh()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_file_that_is_exchanged_while_it_is_looked_at(
    here: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    event_file = tmp_path / "job" / "summaries" / "run" / EVENTS
    take = SummaryFolder._take

    def exchanged(self: SummaryFolder, file: object) -> None:
        event_file.unlink()
        if kind == "link":
            event_file.symlink_to(tmp_path / "secret")
        else:
            os.mkfifo(event_file)
        take(self, file)  # type: ignore[arg-type]

    monkeypatch.setattr(SummaryFolder, "_take", exchanged)
    assert copied(here) == {}


def test_a_file_that_may_not_be_read_hides_no_other(
    folder: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for run in ("closed", "open"):
        written(tmp_path, f"{run}/{EVENTS}")
    copy = SummaryFolder._copy

    def refused(self: SummaryFolder, file: object, begun: int, end: int) -> int:
        if file.place.startswith("closed"):  # type: ignore[attr-defined]
            raise PermissionDenied("cannot read it")
        return copy(self, file, begun, end)  # type: ignore[arg-type]

    monkeypatch.setattr(SummaryFolder, "_copy", refused)
    for _ in range(2):
        assert copied(folder) == {f"open/{EVENTS}": b"content"}
    assert [record.message for record in caplog.records] == ["cannot read it; it is not shown"]


def test_a_file_on_a_broken_disk_hides_no_other(
    here: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for run in ("bad", "good"):
        written(tmp_path, f"{run}/{EVENTS}")
    copy = SummaryFolder._copy

    def breaking(self: SummaryFolder, file: summary_folder._EventFile, begun: int, end: int) -> int:
        if file.place.startswith("bad"):
            file = msgspec.structs.replace(file, open=lambda opened=file.open: broken(opened()))
        return copy(self, file, begun, end)

    monkeypatch.setattr(SummaryFolder, "_copy", breaking)
    assert copied(here)[f"good/{EVENTS}"] == b"content"
    (said,) = [record.message for record in caplog.records]
    assert said.startswith(f"cannot read {EVENTS}: ")
    assert said.endswith("; it is not shown")


def test_a_full_disk_ends_the_look(folder: SummaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, EVENTS)

    def full(self: SummaryFolder, file: object, begun: int, end: int) -> int:
        raise NoSpaceLeft("no room")

    monkeypatch.setattr(SummaryFolder, "_copy", full)
    with pytest.raises(NoSpaceLeft):
        folder.refresh()
