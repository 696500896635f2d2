"""The first step of a job as `validate` and `submit` try it."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from afo.errors import ModelError, StorageError, TrainingError, Unsupported
from afo.job import Docker, Environment, Job
from afo.job.loader import load_job
from afo.psplus import server_library
from afo_client.cli.main import run
from afo_client.models import offline
from afo_client.submission import trial
from afo_client.submission.inspection import inspect_job
from afo_client.submission.trial import check_library, try_job
from fake_runtime import small_job, use_fake_runtime

pytestmark = pytest.mark.tensorflow

MODEL = """import keras

def build():
    x = keras.Input((1,), name="x")
    return keras.Model({"x": x}, keras.layers.Dense(1, "sigmoid")(keras.ops.log(x - SHIFT)))
"""
#: Its step calls Python, which raises.
NUMPY = """import tensorflow as tf

class Model(tf.Module):
    def __init__(self):
        self.weight = tf.Variable([[0.1]])

    def __call__(self, features):
        x = tf.numpy_function(lambda x: {}[9], [features["x"]], tf.float32)
        return tf.sigmoid(tf.reshape(x, [-1, 1]) @ self.weight)

def build():
    return Model()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of an own model, whose first step is finite where SHIFT is 0."""
    small_job(tmp_path, monkeypatch)
    text = (tmp_path / "job.yaml").read_text()
    (tmp_path / "job.yaml").write_text(text + 'model: {entry: "own.py:build"}\n')
    (tmp_path / "own.py").write_text(MODEL.replace("SHIFT", "9.0"))
    return tmp_path


def job_of(folder: Path) -> Job:
    return load_job(str(folder / "job.yaml"), variables={"dt": "1"})


def test_a_model_that_fails_is_refused_and_nothing_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    arguments = ["submit", str(folder / "job.yaml"), "--var", "dt=1", "--runtime", "local"]
    assert run(arguments) == 1
    said = capsys.readouterr().err
    assert f"step 1, a batch of 1 samples of {folder}/a.tfrecord: not finite: the loss" in said
    assert fake.submitted == []
    assert run([*arguments, "--no-trial"]) == 0
    assert len(fake.submitted) == 1
    assert "first step" not in capsys.readouterr().err


def test_of_a_container_are_its_own_files_and_variables_and_no_others(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "shift.py").write_text("import os\nSHIFT = float(os.environ['SHIFT'])\n")
    (folder / "elsewhere" / "logging.py").write_text("raise RuntimeError('in place of the library')\n")
    (folder / "beside.py").write_text("")
    (folder / "own.py").write_text(f"from shift import SHIFT\nopen('shift.py', 'w').write('changed')\n{MODEL}")
    files = tuple(f"{folder}/elsewhere/{name}.py" for name in ("shift", "logging"))
    job = replace(job_of(folder), environment=Environment(files=files, variables={"SHIFT": "0"}))
    found = inspect_job(job, str(folder / "jobs"))
    result = try_job(job, found, local=False)
    assert result.trial is not None
    assert result.trial.samples == 1
    assert "SHIFT" in (folder / "elsewhere" / "shift.py").read_text(), "it has copies"
    (folder / "own.py").write_text(f"import beside\nSHIFT = 0\n{MODEL}")
    assert try_job(job, found, local=True).trial is not None
    with pytest.raises(
        ModelError, match=rf"^{folder}/own.py:build: ModuleNotFoundError in line 1 of own.py: .*'beside'"
    ):
        try_job(job, found, local=False)


def test_it_is_bounded_in_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with what it has started itself."""
    started = folder / "child"
    (folder / "own.py").write_text(
        "import os, subprocess, time\n\ndef build():\n    child = subprocess.Popen(['sleep', '600'])\n"
        f"    open('{started}.new', 'w').write(str(child.pid))\n    os.rename('{started}.new', '{started}')\n"
        "    time.sleep(600)\n"
    )

    def as_if_it_was_long(_: "subprocess.Popen[bytes]", timeout_s: float | None) -> bool:
        while not started.exists():
            time.sleep(0.05)
        return timeout_s is None

    monkeypatch.setattr(offline, "_has_ended", as_if_it_was_long)
    job = job_of(folder)
    found = inspect_job(job, str(folder / "jobs"))
    before = set(psutil.Process().children())
    with pytest.raises(
        TrainingError, match=r"that was to try the first step of .*own.py:build had not ended after 300 s"
    ):
        try_job(job, found, local=True)
    assert set(psutil.Process().children()) <= before
    assert not psutil.pid_exists(int(started.read_text())) or psutil.Process(int(started.read_text())).wait(10) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_it_outlives_the_command(folder: Path, number: signal.Signals) -> None:
    """This interpreter never comes to the step."""
    started, python, temporary = folder / "started", folder / "python", folder / "tmp"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *offline*) echo $$ > {started}.new; mv {started}.new {started};; *) exit 0;; esac\n'
        "exec sleep 600\n"
    )
    python.chmod(0o700)
    temporary.mkdir()
    arguments = [
        str(folder / "job.yaml"),
        "--var",
        "dt=1",
        "--runtime",
        "local",
        "--set",
        f"environment.python={python}",
    ]
    command = subprocess.Popen(
        [sys.executable, "-c", "from afo_client.cli.main import main; main()", "validate", *arguments],
        env={**os.environ, "TMPDIR": str(temporary), "AFO_STATE_DIR": str(folder / "state")}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not started.exists():
        assert command.poll() is None
        time.sleep(0.05)
    step = psutil.Process(int(started.read_text()))
    command.send_signal(number)
    assert command.wait(60) == (143 if number == signal.SIGTERM else -number)
    step.wait(10)
    assert number == signal.SIGKILL or not list(temporary.iterdir())


def test_a_crash_names_the_line(folder: Path) -> None:
    (folder / "own.py").write_text("import os\n\n\ndef build():\n    os.abort()\n")
    job = job_of(folder)
    with pytest.raises(
        TrainingError, match=r"(?s)first step of .*own.py:build was ended by SIGABRT.*own.py\", line 5 in build"
    ):
        try_job(job, inspect_job(job, str(folder / "jobs")), local=True)


def test_what_a_models_own_operation_raises_is_its_error(folder: Path) -> None:
    """Not of the values of a batch: TensorFlow has another kind of error for each exception."""
    (folder / "own.py").write_text(NUMPY)
    job = job_of(folder)
    with pytest.raises(ModelError, match=r"own.py:build: step 1, a batch of 1 samples of .*: KeyError: 9"):
        try_job(job, inspect_job(job, str(folder / "jobs")), local=True)


def test_it_leaves_no_generated_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which TensorFlow writes beside all others' files for a function with a loop or a condition."""
    temporary = folder / "tmp"
    temporary.mkdir()
    (folder / "own.py").write_text(NUMPY.replace("    def __call__", "    @tf.function\n    def __call__").replace(
        "{}[9]", "x"))  # fmt: skip
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    job = job_of(folder)
    try_job(job, inspect_job(job, str(folder / "jobs")), local=True)
    assert list(temporary.iterdir()) == []


def test_where_it_cannot_be_tried_that_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_of(folder)
    found = inspect_job(job, str(folder / "jobs"))
    without = folder / "python"
    without.write_text("#!/bin/sh\nexit 1\n")
    without.chmod(0o700)
    for environment, why in (
        (Environment(docker=Docker(image="ads/ctr:1")), "in the image ads/ctr:1"),
        (Environment(python="/envs/ctr.tar.gz"), "the Python in /envs/ctr.tar.gz"),
        (Environment(python="hdfs:///envs/ctr.tar.gz"), "the Python in hdfs:///envs/ctr.tar.gz"),
        (Environment(python="/opt/none/bin/python"), "/opt/none/bin/python, which is not on this machine"),
        (Environment(python=str(without)), f"{without} has no TensorFlow"),
    ):
        result = try_job(replace(job, environment=environment), found, local=True)
        assert why in result.untried
        assert result.trial is None
    arguments = ["validate", str(folder / "job.yaml"), "--var", "dt=1", "--runtime", "local"]
    assert run([*arguments, "--set", f"environment.python={without}"]) == 0
    assert f"its first step was not tried on this machine: {without} has no TensorFlow" in capsys.readouterr().out


def test_for_what_only_this_machine_lacks_nothing_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(folder)
    found = inspect_job(job, str(folder / "jobs"))
    broken = folder / "broken"
    broken.write_bytes(b"no program")
    broken.chmod(0o700)
    assert str(broken) in try_job(replace(job, environment=Environment(python=str(broken))), found, local=True).untried
    elsewhere = replace(job, environment=Environment(files=("hdfs:///ctr/vocab.txt",)))
    assert try_job(elsewhere, found, local=False).untried == "of its files hdfs:///ctr/vocab.txt is not here"
    monkeypatch.setattr(trial, "MAX_COPIED", 10)
    (folder / "files").mkdir()
    (folder / "files" / "vocab.txt").write_text("eleven words")
    large = replace(job, environment=Environment(files=(str(folder / "files"),)))
    assert try_job(large, found, local=False).untried == "its files are larger than 10 B together"

    def none() -> Path:
        raise Unsupported("the operations are not built here")

    monkeypatch.setattr(trial.library, "available", none)
    assert try_job(job, found, local=True).untried == "the operations are not built here"


def test_a_full_disk_is_called_that(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    job = job_of(folder)
    found = inspect_job(job, str(folder / "jobs"))
    monkeypatch.setattr(trial.shutil, "copy2", full)
    with pytest.raises(StorageError, match="No space left on device; or --no-trial"):
        try_job(job, found, local=False)


def test_without_its_library_a_job_of_psplus_is_refused_where_it_would_run_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_library, "__file__", str(folder / "server_library.py"))
    job = replace(job_of(folder), engine="psplus")
    with pytest.raises(Unsupported, match=r"_afo_server\.so is missing\).* or leave `engine: psplus` out"):
        check_library(job, local=True)
    check_library(job, local=False)
    check_library(replace(job, environment=Environment(python="/another/python")), local=True)
    check_library(job_of(folder), local=True)


def test_a_model_that_psplus_cannot_hold_is_refused(folder: Path) -> None:
    (folder / "own.py").write_text(MODEL.replace("SHIFT", "0"))
    job = replace(job_of(folder), engine="psplus")
    with pytest.raises(Unsupported, match="is for models with embeddings, and this one has none; leave `engine` out"):
        try_job(job, inspect_job(job, str(folder / "jobs")), local=True)
