"""Kills in jobs of conf/jobs/adult-yarn.yaml, by what is killed; each ends when what was killed is back."""

import random
from collections.abc import Callable
from contextlib import suppress

import psutil

from afo.errors import NotFound
from afo.events import types as ev
from live_job import LiveJob
from yarn_view import YarnView

#: Sizes with which all containers fit on one node of 6 GiB, so that any of them can be sent to the other node.
SMALL = (
    "am.memory=640",
    "roles.ps.memory=768",
    "roles.worker.memory=1280",
    "roles.evaluator.memory=1280",
)
#: Small steps, so that there is time for faults; and checkpoints to return to.
EPOCHS, STEPS = 4, 4071
LONG = (f"data.epochs={EPOCHS}", "data.batch_size=32", "checkpoint.every=8s", "train.eval_every=8s")


def wait_for_step(job: LiveJob, step: int) -> None:
    """Until all workers together have made so many steps."""
    job.wait(lambda: job.step() >= step, f"step {step}")


def kill_worker(job: LiveJob, choice: random.Random) -> None:
    """The TensorFlow process of a worker: another one in its container."""
    _kill_in_place(job, "worker", choice.randrange(2))


def kill_child(job: LiveJob, choice: random.Random) -> None:
    """The Child of a worker, and with it the worker; its replacement gets another node."""
    _kill_and_move(job, "worker", choice.randrange(2))


def kill_ps(job: LiveJob, choice: random.Random) -> None:
    """The TensorFlow server of a parameter server: another one in its container, a new generation."""
    _end_generation(job, lambda: _kill_in_place(job, "ps", choice.randrange(2)))


def kill_child_of_ps(job: LiveJob, choice: random.Random) -> None:
    """The Child of a parameter server, and with it the server; its replacement gets another node."""
    _end_generation(job, lambda: _kill_and_move(job, "ps", choice.randrange(2)))


def _end_generation(job: LiveJob, kill: Callable[[], None]) -> None:
    """The next one is on other ports."""
    before = job.events(ev.GenerationStarted)[-1]
    kill()
    job.wait(lambda: job.events(ev.VariablesReady)[-1].generation > before.generation, "a new generation is ready")
    assert set(job.events(ev.GenerationStarted)[-1].ps).isdisjoint(before.ps), job.story()


def kill_master(job: LiveJob, choice: random.Random) -> None:
    """The AM's Python process inside its container; its supervisor starts it again there."""
    starts = len(job.events(ev.AmStarted))
    job.kill(job.master())
    job.wait(lambda: len(job.events(ev.AmStarted)) > starts and job.status() is not None, "the AM is back")


KINDS: dict[str, Callable[[LiveJob, random.Random], None]] = {
    "worker": kill_worker, "child": kill_child, "ps": kill_ps, "ps-child": kill_child_of_ps, "am": kill_master,
}  # fmt: skip


def _kill_in_place(job: LiveJob, role: str, index: int) -> None:
    """Its process, which ends as the last one of its container did."""
    task = f"{role}:{index}"
    process, before = _running(job, job.trainer, role, index), _registered(job, role, index)
    ends = [str(event.task) for event in job.events(ev.ProcessEnded)].count(task)
    job.kill(process)
    job.wait(lambda: [str(each.task) for each in job.events(ev.ProcessEnded)].count(task) > ends, f"{task} is missed")
    assert _running(job, job.trainer, role, index).pid != process.pid
    assert _registered(job, role, index) == before, f"{before} is in another container"


def _kill_and_move(job: LiveJob, role: str, index: int) -> None:
    """Its Child; what replaces it has to be on the other node."""
    process, before = _running(job, job.child, role, index), _registered(job, role, index)
    view = YarnView(job.id)
    with view.closed_to_new_containers(view.node_of(before.container)):
        job.kill(process)
        job.wait(lambda: _registered(job, role, index).task.attempt > before.task.attempt, f"{role}:{index} is back")
    after = _registered(job, role, index)
    assert after.task.attempt == before.task.attempt + 1, job.story()
    assert after.host != before.host, f"{before} came back as {after}"


def _running(job: LiveJob, find: Callable[[str, int], psutil.Process], role: str, index: int) -> psutil.Process:
    found: list[psutil.Process] = []

    def runs() -> bool:
        with suppress(NotFound, psutil.NoSuchProcess):  # between two processes
            found.append(find(role, index))
        return bool(found)

    job.wait(runs, f"{role}:{index} runs")
    return found[-1]


def _registered(job: LiveJob, role: str, index: int) -> ev.TaskRegistered:
    mine = [event for event in job.events(ev.TaskRegistered) if (event.task.role, event.task.index) == (role, index)]
    return mine[-1]
