"""A model of conf/models submitted by the real `afo` command, served by plain TensorFlow afterwards."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conf_models import MODELS, write_small
from live_job import afo

pytestmark = pytest.mark.tensorflow

PLAIN = Path(__file__).parents[2] / "support" / "standalone" / "plain_tensorflow.py"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs and secrets lie in the test's own folder."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))


@pytest.mark.slow
def test_deepfm_trains_on_two_servers_and_serves_without_afo(tmp_path: Path) -> None:
    write_small("deepfm", tmp_path / "data", 4000)
    job = MODELS / "deepfm" / "job.yaml"
    options = ["--var", f"data={tmp_path}/data", "--set", "data.batch_size=64", "--set", "data.epochs=6"]
    done = afo("submit", str(job), "--runtime", "local", "--json", *options)
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert ended["state"] == "SUCCEEDED"
    reached = ended["metrics"]["auc"]
    # The log odds behind the labels reach 0.99.
    assert reached > 0.9
    command = [sys.executable, "-I", str(PLAIN), ended["places"]["model"], "income"]
    files = [str(path) for path in sorted((tmp_path / "data" / "test").iterdir())]
    served = json.loads(subprocess.run([*command, *files], check=True, capture_output=True, timeout=120).stdout)
    assert served["afo"] == []
    assert served["auc"] == pytest.approx(reached, abs=1e-6)


@pytest.mark.slow
def test_the_last_words_of_a_model_that_raises_are_the_jobs(tmp_path: Path) -> None:
    write_small("deepfm", tmp_path / "data", 100)
    own = tmp_path / "my_ctr.py"
    own.write_text("def build():\n    return 1 / 0\n")
    job = MODELS / "deepfm" / "job.yaml"
    done = afo(
        "submit",
        str(job),
        "--no-trial",
        "--runtime",
        "local",
        "--var",
        f"data={tmp_path}/data",
        "--set",
        f"model.entry={own}:build",
    )
    assert done.returncode != 0
    assert "ZeroDivisionError in line 2 of my_ctr.py: division by zero" in done.stderr
    assert "model_error" in done.stderr
