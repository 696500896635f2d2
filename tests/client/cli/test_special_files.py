"""Pipes, devices, sockets and directories where a file is expected: the command ends, and says what is there."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from afo.errors import DataError, NotFound, SpecError
from afo.events import event_log
from afo.events.event_log import read_log
from afo.events.event_tail import EventTail
from afo.events.types import JobFinished
from afo.formats import json_file
from afo.job.loader import load_job
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.site.config import load_config
from afo.storage.regular_file import read_end, read_regular
from afo_client.cli.main import run
from afo_client.packing.archive import write_archive
from afo_client.runtimes.local.local_jobs import LocalJobs
from fake_runtime import small_job
from job_writer import JobWriter

pytestmark = pytest.mark.timeout(60)  # without what is tested here they wait for ever

PIPE, SOCKET, DEVICE = "is a named pipe", "is a socket", "is a character device"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that is right, and a file of each special kind; the present directory."""
    folder = small_job(tmp_path, monkeypatch)
    monkeypatch.chdir(folder)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    return folder


@pytest.mark.parametrize(("name", "kind"), [("pipe", PIPE), ("socket", SOCKET), ("/dev/zero", DEVICE)])
@pytest.mark.parametrize(
    "command",
    [
        "validate {}",
        "validate job.yaml --var dt=1 --set data.train=[{}]",
        "validate job.yaml --var dt=1 --set data.schema={}",
        "validate job.yaml --var dt=1 --set defaults={}",
        "data inspect {}",
        "data index {}",
        "data convert {} --schema schema.yaml --out out",
        "data convert a.tfrecord --schema {} --out out",
        "demo --dir demo --job {}",
    ],
)
def test_what_is_no_file_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, name: str, kind: str
) -> None:
    named = name if name.startswith("/") else str(folder / name)
    assert run([each.format(named) for each in command.split()]) in (1, 3, 5)
    told = capsys.readouterr().err
    assert kind in told
    assert named in told


def test_a_directory_is_named_as_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(folder)]) == 3
    assert "Is a directory" in capsys.readouterr().err


def test_a_stream_of_this_process_is_read(folder: Path) -> None:
    """Its paths are relative to the working directory."""
    program = "from afo_client.cli.main import main; main()"
    command = [sys.executable, "-c", program, "validate", "--no-trial", "--var", "dt=1"]
    text = (folder / "job.yaml").read_text()
    done = subprocess.run([*command, "/dev/stdin"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["am-config.json", "verdict.json", "lock", "stderr"])
def test_one_in_the_directory_of_a_job(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Of two jobs; the other is listed as always."""
    written = [write_job(folder, number) for number in (1, 2)][-1]
    written[name].unlink(missing_ok=True)
    if name == "stderr":
        written["verdict.json"].unlink()
    os.mkfifo(written[name])
    assert LocalJobs(load_config("local")).find_marked("a mark") is None
    assert run(["ls"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("local_1_0001"))
    assert "SUCCEEDED" in row


def write_job(folder: Path, number: int) -> dict[str, Path]:
    """An ended job of the local runtime; where its files lie."""
    root = str(folder / "state" / "jobs")
    paths = JobPaths(root, f"local_{number}_0001")
    places = {
        "am-config.json": Path(paths.dir, "am", "am-config.json"), "lock": Path(paths.dir, "am", "lock"),
        "verdict.json": Path(paths.verdict), "stderr": Path(paths.am_logs, "1", "stderr"),
    }  # fmt: skip
    for place in places.values():
        place.parent.mkdir(parents=True, exist_ok=True)
    config = AmConfig(
        job=load_job(folder / "job.yaml", variables={"dt": "1"}), user="ann", afo_version="0", runtime="local",
        jobs_root=root, train_files=(), eval_files=(), secret_file="", schema_file="", submitted=1.0,
    )  # fmt: skip
    ended = JobFinished(
        state="SUCCEEDED", cause="succeeded", diagnostics="", metrics={}, samples=1, step=1, seconds=1.0,
        core_hours=0.0, memory_gb_hours=0.0, restarts=0,
    )  # fmt: skip
    json_file.write_private(places["am-config.json"], config)
    json_file.write_private(places["verdict.json"], ended)
    return places


def test_none_is_sent_to_containers(folder: Path) -> None:
    with open(os.devnull, "wb") as out, pytest.raises(SpecError, match=r"pipe is a named pipe"):
        write_archive(folder, [folder / "pipe"], out)


def test_a_file_of_any_size_is_read_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    assert (read_end(path, 2), read_end(path, 9)) == (b"45", b"12345")
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match=r"1,099,511,627,776 bytes.* more than 5.*file"):
        read_regular(path, 5)
    assert read_end(path, 2) == b"\0\0"
    with pytest.raises(NotFound, match=r"file: it has 1,099,511,627,776 bytes.* more than 67,108,864"):
        json_file.read(path, AmConfig)
    with pytest.raises(DataError, match=r"file: larger than 67108864 bytes"):
        json_file.fetch(str(path), AmConfig)


def test_a_schema_of_any_size_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.truncate("schema.yaml", 1 << 40)
    assert run(["validate", "job.yaml", "--var", "dt=1"]) == 3
    assert "schema.yaml: larger than 67108864 bytes" in capsys.readouterr().err


def test_an_event_log_of_any_size_is_read_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobWriter(str(tmp_path), "local_1_0001", "clicks").begin().end("SUCCEEDED", "succeeded")
    tail = EventTail(job.paths.events)
    assert len(list(tail.poll())) == len(list(read_log(job.paths.events)))
    assert tail.damage == ""
    os.truncate(job.paths.events_segment(1, 1), 1 << 40)
    monkeypatch.setattr(event_log, "MAX_PASSED", 1 << 20)
    assert list(tail.poll()) == []
    assert tail.damage == "the rest of the event log is not read: a line of it is longer than 1048576 bytes"
    with pytest.raises(DataError, match=rf"{job.paths.events}: the event log is not read to its end: a line of it is"):
        list(read_log(job.paths.events))
