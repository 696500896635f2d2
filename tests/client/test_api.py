"""Jobs from Python: the same jobs and errors as on the command line."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from afo.errors import AfoError, NotFound, SpecError, WaitTimeout
from afo_client import Job, JobFailed, JobKilled, api, open_job, submit
from fake_runtime import FakeRuntime, small_job, use_fake_runtime

VARIABLES = {"dt": "2026-01-02"}


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFO_RUNTIME", "")
    return small_job(tmp_path, monkeypatch) / "job.yaml"


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    fake = use_fake_runtime(monkeypatch, "RUNNING")
    monkeypatch.setattr(api, "runtime_for", lambda name, config: fake)
    return fake


def test_a_job_from_its_submission_to_its_metrics(job_file: Path, running: FakeRuntime) -> None:
    settings = {"data.epochs": 3, "roles.worker.memory": "3 GiB", "tags": {"by": "python"}}
    job = submit(job_file, settings=settings, variables=VARIABLES, runtime="local")
    assert (job.id, job.new, job.status().state) == ("local_1_0001", True, "RUNNING")
    submitted = running.submitted[0][0].job
    assert (submitted.data.epochs, submitted.roles["worker"].memory, submitted.tags) == (3, 3072, {"by": "python"})
    with pytest.raises(WaitTimeout, match="it goes on"):
        job.wait(timeout=0)
    running.end("SUCCEEDED")
    assert job.wait().state == "SUCCEEDED"
    assert job.metrics == {"auc": 0.9}
    assert job.places["model"] == f"{job_file.parent}/out/2026-01-02"
    assert open_job().id == open_job(job.id).id == job.id


@pytest.mark.parametrize(("state", "kind", "code"), [("FAILED", JobFailed, 1), ("KILLED", JobKilled, 8)])
def test_how_it_ended_is_an_error(
    job_file: Path, running: FakeRuntime, state: str, kind: type[JobFailed], code: int
) -> None:
    job = submit(str(job_file), variables=VARIABLES)
    running.end(state)
    with pytest.raises(kind) as caught:
        job.wait()
    assert (type(caught.value), caught.value.exit_code, caught.value.view.state) == (kind, code, state)
    assert isinstance(caught.value, AfoError)
    assert job.kill().state == state


def test_a_key_returns_the_earlier_job(job_file: Path, running: FakeRuntime) -> None:
    def again(*, retry: bool = False) -> Job:
        return submit(job_file, variables=VARIABLES, idempotency_key="daily", retry=retry)

    first = again()
    assert (again().id, again().new) == (first.id, False)
    running.end("FAILED")
    assert (again(retry=True).id, again().id) == ("local_2_0001", "local_2_0001")


def test_errors_are_those_of_the_command(job_file: Path, running: FakeRuntime) -> None:
    with pytest.raises(SpecError, match="did you mean `epochs`"):
        submit(job_file, settings={"data.epoch": 1}, variables=VARIABLES)
    with pytest.raises(NotFound, match=r"gone\.yaml"):
        submit("gone.yaml")
    with pytest.raises(NotFound, match="there is no job"):
        open_job("local_9_0009")
    assert running.submitted == []


def test_any_thread_will_do(job_file: Path, running: FakeRuntime) -> None:
    jobs: list[Job] = []
    thread = threading.Thread(target=lambda: jobs.append(submit(job_file, variables=VARIABLES)))
    thread.start()
    thread.join()
    assert repr(jobs[0]) == "<afo job local_1_0001>"


def test_the_package_loads_nothing_until_it_is_asked() -> None:
    program = "import sys, afo_client; sys.exit('afo_client.api' in sys.modules or 'click' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
