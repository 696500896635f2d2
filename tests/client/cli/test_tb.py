"""`afo tb`: a real TensorBoard over the summaries, and nothing of it left behind."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from afo.errors import AfoError
from afo.job.paths import JobPaths
from afo.tensorboard.process import tensorboard
from afo_client.cli.main import run

JOB = "local_1_0001"
SUMMARIES = """
import sys
import tensorflow as tf
with tf.summary.create_file_writer(sys.argv[1]).as_default():
    tf.summary.scalar("train/loss", 0.5, step=1)
"""


@pytest.mark.tensorflow
def test_it_shows_the_runs_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    paths = JobPaths(str(tmp_path / "jobs"), JOB)
    subprocess.run([sys.executable, "-c", SUMMARIES, f"{paths.summaries}/worker_0"], check=True, capture_output=True)
    environment = {**os.environ, "AFO_STATE_DIR": str(tmp_path), "AFO_JOBS_ROOT": paths.root}
    process = subprocess.Popen(
        [sys.executable, "-m", "afo_client", "tb", JOB], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    address = process.stdout.readline().decode().strip()
    children = psutil.Process(process.pid).children(recursive=True)
    with urllib.request.urlopen(f"{address}data/runs", timeout=60) as answer:
        assert json.load(answer) == ["worker_0"]
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert (process.returncode, b"ending TensorBoard" in words) == (0, True)
    assert psutil.wait_procs(children, timeout=20)[1] == []


def test_its_last_words_are_shown(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho No module named tensorboard >&2\nexit 1\n")
    program.chmod(0o700)
    with tensorboard(str(program), tmp_path, None) as board, pytest.raises(AfoError) as caught:
        board.await_listening()
    assert "No module named tensorboard" in str(caught.value)
    assert "pip install tensorboard" in str(caught.value)


def test_a_job_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    assert run(["tb", JOB]) == 5
