"""The example programs of conf/programs as jobs that take long enough to be disturbed, and what comes out of them."""

import contextlib
import json
import re
from pathlib import Path

import psutil
import pytest
import yaml

from afo import storage
from afo.events import types as ev
from live_job import LiveJob

PROGRAMS = Path(__file__).parents[2] / "conf" / "programs"
#: Name → arguments that make it last, and the task whose process is killed.
CASES = {
    "between_graph": (("--steps", "600", "--pause", "0.05"), ("chief", 0)),
    "coordinator": (("--steps", "250", "--pause", "0.5"), ("ps", 0)),
    "multi_worker": (("--steps", "250", "--pause", "0.06"), ("worker", 1)),
}
#: In TensorFlow's file `checkpoint`: a step after the first.
_STEP = re.compile(r'ckpt-[1-9][0-9]*"')


def job_file(name: str, folder: Path) -> Path:
    """The example's job file, with the arguments of the test."""
    job = yaml.safe_load((PROGRAMS / f"{name}.yaml").read_text())
    job |= {"program": str(PROGRAMS / job["program"]), "args": list(CASES[name][0])}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def programs(job: LiveJob) -> dict[tuple[str, int], psutil.Process]:
    """The user's own processes that run now, by role and index."""
    found = {}
    for task in {event.task for event in job.events(ev.TaskRegistered)}:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in job.child(task.role, task.index).children(recursive=True):
                if "--steps" in process.cmdline():
                    found[task.role, task.index] = process
    return found


def kill_after_a_save(job: LiveJob, role: str, index: int) -> None:
    """SIGKILL to one program once there is something to go on from.

    All stand still until that is saved, so that none has done its work before the kill, however busy the machine is.
    """
    job.wait(lambda: 0 < len(job.events(ev.ContainerRequested)) == len(programs(job)), "all programs run")
    running = programs(job)
    chief = running.get(("chief", 0)) or running["worker", 0]
    newest = Path(chief.environ()["AFO_MODEL_DIR"]) / "checkpoint"
    job.wait(lambda: newest.exists() and _STEP.search(newest.read_text()) is not None, "a checkpoint")
    for process in running.values():
        process.suspend()
    content, saved = newest.read_bytes(), storage.join(job.paths.checkpoints(""), "checkpoint")
    job.wait(lambda: storage.exists(saved) and storage.read_bytes(saved) == content, "its copy")
    job.kill(running.pop((role, index)))
    for process in running.values():
        with contextlib.suppress(psutil.NoSuchProcess):  # ended with its generation
            process.resume()


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
