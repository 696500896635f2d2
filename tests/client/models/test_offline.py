"""Files that a saved model is to read."""

import errno
import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from afo.data.io.tfrecord import RecordWriter
from afo.errors import DataError, NoSpaceLeft
from afo.job import Data, Job, RoleSpec
from afo.protocol.offline_task import NumberedFile, OfflineResult, OfflineTask
from afo_client.models import offline
from afo_client.models.offline import input_files

JOB = Job(name="j", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=Data(schema="s", train=("x",)))


def test_files_are_numbered(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with RecordWriter(str(tmp_path / name), "gzip") as writer:
            writer.write(b"text in a record")
    assert input_files([f"{tmp_path}/*"], 3) == [NumberedFile(3, f"{tmp_path}/a"), NumberedFile(4, f"{tmp_path}/b")]


@pytest.mark.parametrize("name", ["day.csv", "day.csv.gz"])
def test_csv_is_no_records(tmp_path: Path, name: str) -> None:
    rows = b"imp_id,user\n1,2\n"
    (tmp_path / name).write_bytes(gzip.compress(rows) if name.endswith(".gz") else rows)
    with pytest.raises(DataError, match=rf"{name} holds no records; it looks like text: `afo data convert` writes"):
        input_files([f"{tmp_path}/*"])


@pytest.mark.parametrize(
    ("given", "each", "in_files", "words"),
    [
        (None, 500, False, ""),
        (700, 700, True, "hash tables were looked up in files: in memory they might take more than 700 B (--memory)\n"),
    ],
)
def test_processes_share_the_memory_that_is_available(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: int | None, each: int, in_files: bool,
    words: str,
) -> None:  # fmt: skip
    result = OfflineResult(in_files=in_files)
    model, files = mock.Mock(), [NumberedFile(number, "f") for number in range(2)]
    model.job, model.ref.url, model.ref.rows = JOB, "m", "int8"
    tasks: list[OfflineTask] = []
    monkeypatch.setattr(offline, "available_memory", lambda: 1000)

    def deal(task: Callable[..., OfflineTask], _schema: bytes, files: list[NumberedFile], _processes: int) -> object:
        tasks.append(task(tuple(files), "s", "w"))
        return [result]

    monkeypatch.setattr(offline, "run_dealt", deal)
    offline.run(model, "predict", files, processes=3, memory=given)
    assert [task.memory for task in tasks] == [each]
    assert capsys.readouterr().err == words


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_scratch_directory_is_named_with_the_room_it_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    scratch = tempfile.gettempdir()
    (tmp_path / "g000001-a" / "tables").mkdir(parents=True)
    (tmp_path / "g000001-a" / "tables" / "rows").write_bytes(bytes(3 << 20))
    model = mock.Mock(job=JOB)
    model.ref.url, model.ref.manifest.directory = f"{tmp_path}/manifest.json", "g000001-a"

    def fill(*arguments: object) -> None:
        raise OSError(number, "full", f"{scratch}/afo-x1/0/restore")

    monkeypatch.setattr(offline, "run_dealt", fill)
    with pytest.raises(NoSpaceLeft, match=rf"\$TMPDIR \({scratch}\).* twice the checkpoint's 3.0 MiB"):
        offline.run(model, "evaluate")
