"""The life cycle of a task: its container is requested, it ends or is given up, and comes again or not. Pure.

A Child whose process failed offers to stay. It may, unless the next attempt needs another container, and it starts the
process again once a directive counts as many starts as it has reported ends.
"""

import re

from msgspec.structs import replace

from afo.events import types as ev
from afo.failures.causes import CAUSES, OF_THE_HOST, SCALED_AWAY
from afo.failures.classify import last_exception
from afo.formats.units import Memory
from afo.rpc import messages as m
from afo_am.policy.orders import Orders
from afo_am.policy.restarts import (
    MEMORY_CAUSES,
    GiveUp,
    decide_restart,
    go_on_without,
    holds,
    memory_ends,
)
from afo_am.policy.verdict import decide
from afo_am.state import commands as c
from afo_am.state.context import Context
from afo_am.state.job_state import ENDED_WITH_JOB, STOPPED, SUCCEEDED
from afo_am.state.tasks import Stage, Task

_JAVA_FRAME = re.compile(r"\n\s+(at |\.\.\. \d+ more).*")

#: The next attempt needs more memory, another machine or a fresh container.
_NEED_ANOTHER_CONTAINER = MEMORY_CAUSES | OF_THE_HOST | {
    "python_not_found", "preload_missing", "port_in_use", "restarts_exhausted", "container_stopped", "work_dir_lost",
}  # fmt: skip
#: After so many in one container the next start is in another one: something may be wrong with this.
MAX_IN_PLACE = 3
#: Characters of an exception's line that are repeated wherever the task's end is told.
_EXCEPTION_CHARACTERS = 500
#: A Child gives up reporting an end long before.
_LONGEST_IDLE_S = 86_400.0


class Lifecycle:
    """Every end of a task comes here."""

    def __init__(self, context: Context, orders: Orders) -> None:
        self._context, self._orders = context, orders

    def process_ended(self, task: Task, report: m.ExitReport) -> bool:
        """The process of a Child ended; whether it stays for another start in its container. Else it leaves."""
        state, registered = self._context.state, task.stage is Stage.REGISTERED
        if registered and report.stays and not task.leaving:
            told_before = 0 < report.number <= task.process_ends
            if state.verdict or told_before or self._is_echo(task, report):
                return True
            if report.cause not in _NEED_ANOTHER_CONTAINER and task.in_place < MAX_IN_PLACE:
                self._start_in_place(task, report)
                return True
        if registered and report.cause == STOPPED and not state.verdict:
            task.stopped, task.last_seen = report, self._context.now  # the container's end will say by whom, and why
        elif report.cause == SUCCEEDED and self._of_lost_generation(task, report):
            # Were it taken for done, the next generation would wait for its address, or find no parameter servers.
            cause = "generation_lost"
            self.task_ended(task, cause, report.code, CAUSES[cause].summary, report)
        else:
            self.task_ended(task, report.cause, report.code, self._message_of(task, report), report)
        return False

    def _is_echo(self, task: Task, report: m.ExitReport) -> bool:
        """The process listened in a generation that has ended, and would have been ended with it."""
        state = self._context.state
        if holds(state, task):
            return report.generation < state.holders[task.id.index].generation
        listens = task.id.role in state.config.job.listening
        return listens and (report.generation != state.generation or not state.cluster)

    def _of_lost_generation(self, task: Task, report: m.ExitReport) -> bool:
        state, evaluates = self._context.state, task.id.role == "evaluator"
        generation = state.generation_of(task, report.generation, report.progress)
        return not evaluates and not state.verdict and generation != state.generation

    def _start_in_place(self, task: Task, report: m.ExitReport) -> None:
        message = self._message_of(task, report)
        self._context.record(
            ev.ProcessEnded(
                task=task.id, cause=report.cause, code=report.code, message=message, tail=report.tail,
                number=report.number, idle_s=_idle_s(report),
            )
        )  # fmt: skip
        self._start_again(task, report.cause, message)

    def _message_of(self, task: Task, report: m.ExitReport) -> str:
        return message_of(report, self._context.state.spec(task.id.role).memory)

    def task_lost(self, task: Task, cause: str, text: str, idle_s: float = 0.0) -> None:
        """A task is given up by the AM itself: its container is killed and replaced."""
        self._context.kill_container(task)
        self.task_ended(task, cause, None, text, idle_s=idle_s)

    def task_ended(
        self, task: Task, cause: str, code: int | None, message: str, report: m.ExitReport | None = None,
        idle_s: float = 0.0,
    ) -> None:  # fmt: skip
        """An attempt is over, as it was in effect for `idle_s` before: it is replaced, or the job fails."""
        if self._context.state.verdict and cause != SUCCEEDED:
            cause, message = ENDED_WITH_JOB, CAUSES[ENDED_WITH_JOB].summary
        elif task.leaving and cause != SUCCEEDED:  # whatever it is that it ended with
            cause, message = task.leaving
        self._context.record(
            ev.TaskEnded(
                task=task.id, cause=cause, code=code, message=message,
                tail=report.tail if report else "",
                progress=report.progress if report else task.progress,
                usage=report.usage if report else task.usage, idle_s=_idle_s(report) if report else round(idle_s, 3),
            )
        )  # fmt: skip
        self._orders.task_ended(task.id, cause)
        if cause == SCALED_AWAY:
            task.waiting_since = 0.0  # a wait begins when it is wanted again
        elif not (self._context.state.verdict or cause == SUCCEEDED or task.given_up):
            self._start_again(task, cause, message)

    def _start_again(self, task: Task, cause: str, message: str) -> None:
        """After an end that was recorded: a pause and another attempt, with all others if they must; or giving up."""
        decision = decide_restart(self._context.state, task, cause, self._context.wall, message)
        if isinstance(decision, GiveUp):
            self._give_up(task, cause, f"{message.rstrip('.')}; {decision.reason}")
            return
        task.not_before = self._context.now + decision.pause_s
        if decision.ends is not None:
            self._end_generation(decision.ends)

    def _end_generation(self, ended: ev.GenerationEnded) -> None:
        if self._context.state.ready:
            step = max(self._context.state.step, self._context.rates.step)
            ended = replace(ended, step=step, samples=self._context.rates.trained)
        self._context.record(ended)

    def _give_up(self, task: Task, cause: str, text: str) -> None:
        """The job goes on without the task, or fails."""
        if not go_on_without(self._context, task, cause, text):
            where = f"{task.id} on {task.host}" if task.host else str(task.id)
            decide(self._context, "FAILED", cause, f"{where}: {text}", task.id)

    def request(self, task: Task, reason: str) -> None:
        """Ask for a container."""
        spec = self._context.state.spec(task.id.role)
        again = (task.id.role, task.id.index) in self._context.state.requested
        task_id = m.TaskId(role=task.id.role, index=task.id.index, attempt=task.id.attempt + again)
        self._context.record(
            ev.ContainerRequested(task=task_id, memory=int(spec.memory), vcores=spec.vcores, reason=reason)
        )
        task.last_seen = self._context.now
        task.waiting_since = task.waiting_since or self._context.now
        self._context.command(c.RequestContainer(task_id, more_memory=memory_ends(task) > 0))


def _idle_s(report: m.ExitReport) -> float:
    """NaN and infinity, which a Child could send, could not stand in the journal."""
    return round(min(max(0.0, report.idle_s), _LONGEST_IDLE_S), 3)


def without_frames(diagnostics: str) -> str:
    """What YARN says, without where in its code."""
    return _JAVA_FRAME.sub("", diagnostics)


def message_of(report: m.ExitReport, given: Memory) -> str:
    """A line about a task's end: the exception that the process ended with, else what its cause means in general.

    After a lack of memory with the most that the task was seen to use of what it was given.
    """
    words = last_exception(report.tail) if report.code > 0 else ""
    words = words[:_EXCEPTION_CHARACTERS] or CAUSES[report.cause].summary
    if report.cause in MEMORY_CAUSES and report.usage.peak_rss:
        words = f"{words.rstrip('.')}: it used {report.usage.peak_rss / 2**20:,.0f} MiB of {given}"
    return words
