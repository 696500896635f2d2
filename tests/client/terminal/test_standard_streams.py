"""The command with streams that are closed, full, without a reader, or of another encoding than UTF-8."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo_client.cli.main import run

#: `$AFO` is the command.
AFO = f"{sys.executable} -c 'from afo_client.cli.main import main; main()'"


def shell(
    line: str, folder: Path, stdout: int = subprocess.PIPE, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """A line of a shell with a state of its own; what it may not leave are processes and reports of a crash."""
    variables = {**os.environ, "AFO_STATE_DIR": str(folder), "TMPDIR": str(folder), **environment}
    done = subprocess.run(
        ["bash", "-c", line.replace("$AFO", AFO)], env=variables, stdout=stdout, stderr=subprocess.PIPE, timeout=120,
        check=False,
    )  # fmt: skip
    assert b"a bug in afo" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("$AFO config >/dev/full", 74, b"error: cannot write to stdout: No space left on device\n"),
        ("$AFO --help >/dev/full", 74, b"error: cannot write to stdout: No space left on device\n"),
        ("$AFO config --json >&-", 74, b"error: cannot write to stdout: it is closed\n"),
        ("$AFO config >&- 2>&- <&-", 74, b""),
        ("$AFO ls >&-", 0, b"no jobs; "),
        ("$AFO config 2>&- >/dev/null", 0, b""),
        ("$AFO wait local_1_0001 2>/dev/full", 5, b""),
        ("$AFO wait local_1_0001 2>&-", 5, b""),
        ("$AFO kill <&-", 2, b"error: no job was named"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, line: str, code: int, told: bytes) -> None:
    done = shell(line, tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(told)
    assert told or not done.stderr


@pytest.mark.parametrize("line", ["$AFO config", "$AFO --help", "$AFO wait local_1_0001 2>&1"])
def test_nobody_reads_any_more(tmp_path: Path, line: str) -> None:
    """As `afo logs | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = shell(line, tmp_path, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_closed_place_is_not_given_to_a_file(tmp_path: Path) -> None:
    """Else results would be written into the next file that is opened."""
    done = shell("$AFO config --json >&-; cat state/* 2>/dev/null", tmp_path)
    assert b"afo/v1" not in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_another_encoding(tmp_path: Path, encoding: str) -> None:
    """Words get question marks, JSON stays what it is."""
    done = shell("$AFO doctor; AFO_JOBS_ROOT=/tmp/clicks-é-点 $AFO config --json", tmp_path, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    words, _, line = done.stdout.decode(encoding).rstrip("\n").rpartition("\n")
    assert ("→" if encoding == "utf-8" else "?") in words
    assert json.loads(line)["config"]["jobs_root.local"]["value"] == "/tmp/clicks-é-点"
    assert ("é" in line) == (encoding == "utf-8")


def test_a_name_that_is_in_no_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path))
    name = str(tmp_path / "\udcff.tfrecord")
    with RecordWriter(name) as writer:
        writer.write(encode({"x": [1]}))
    assert run(["data", "inspect", "--json", name]) == 3
    told = capsys.readouterr().err
    assert r"\udcff.tfrecord" in told
    assert "rename the file" in told
    done = shell(r"$AFO validate $'\xff.yaml'", tmp_path)
    assert done.returncode == 5
    assert done.stderr.startswith(b"error: .yaml: ")
