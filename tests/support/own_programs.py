"""The example programs of conf/programs as jobs that take long enough to be disturbed, and what comes out of them."""

import json
from pathlib import Path

import psutil
import pytest
import yaml

from afo import events as ev
from afo import storage
from live_job import LiveJob

PROGRAMS = Path(__file__).parents[2] / "conf" / "programs"
#: Name → arguments that make it last, and the task whose process is killed.
CASES = {
    "between_graph": (("--steps", "600", "--pause", "0.12"), ("chief", 0)),
    "coordinator": (("--steps", "250", "--pause", "1.2"), ("ps", 0)),
    "multi_worker": (("--steps", "250", "--pause", "0.15"), ("worker", 1)),
}


def job_file(name: str, folder: Path) -> Path:
    """The example's job file, with the arguments of the test."""
    job = yaml.safe_load((PROGRAMS / f"{name}.yaml").read_text())
    job |= {"program": str(PROGRAMS / job["program"]), "args": list(CASES[name][0])}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def process_of(job: LiveJob, role: str, index: int) -> psutil.Process:
    """The user's own process of a task."""
    for process in job.child(role, index).children(recursive=True):
        if any(word.endswith(".py") and "--steps" in process.cmdline() for word in process.cmdline()):
            return process
    pytest.fail(f"{role}:{index} runs no program\n{job.story()}")


def kill_after_a_save(job: LiveJob, role: str, index: int) -> None:
    """SIGKILL to one program once there is something to go on from."""
    saved = storage.join(job.paths.checkpoints(""), "checkpoint")
    job.wait(lambda: storage.exists(saved), "a saved checkpoint")
    job.kill(process_of(job, role, index))


def check_result(job: LiveJob, name: str) -> None:
    """It ended well, went on where it was, started anew in place, and fitted y = 2a - 3b + 1."""
    verdict = job.verdict()
    assert verdict.state == "SUCCEEDED", job.story()
    result = json.loads(storage.read_bytes(storage.join(job.paths.checkpoints(""), "result.json")))
    assert result["weights"] == pytest.approx([2, -3], abs=1e-3)
    assert result["bias"] == pytest.approx(1, abs=1e-3)
    assert 0 < result["began"] <= result["step"], "the second generation began with what the first had saved"
    role, index = CASES[name][1]
    (ended,) = job.events(ev.ProcessEnded)
    assert (ended.task.role, ended.task.index, ended.cause) == (role, index, "killed_by_signal")
    first, second = job.events(ev.GenerationStarted)
    assert not set(sum(first.cluster.values(), ())) & set(sum(second.cluster.values(), ()))
    assert all(event.task.attempt == 0 for event in job.events(ev.ContainerRequested)), "in place: no new container"
    job.wait_for_no_process()
