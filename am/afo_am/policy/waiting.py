"""Explanation of the wait for containers. Pure.

A picture of the cluster is wanted while somebody waits; one that does not come is only missing in the words.
"""

from __future__ import annotations

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Role
from afo_am.policy.wait_text import Lack, reason, sentence
from afo_am.state import commands as c
from afo_am.state.context import Context
from afo_am.state.tasks import Stage, Task

#: A wait so short needs no reason.
_SHORT_S = 5.0
#: A picture is asked for so often, and is too old after this.
_LOOK_EVERY_S, _OLD_S = 15.0, 60.0
#: Between two events that explain a wait.
_TELL_EVERY_S = 60.0
#: In which containers are asked for, and so in which YARN gives them: the gang first, its largest before.
ORDER: tuple[Role, ...] = ("ps", "chief", "evaluator", "worker")


def in_order(task: Task) -> int:
    """Sorts tasks by `ORDER`."""
    return ORDER.index(task.id.role)


class Waiting:
    """Looks at the cluster now and then, and says what it saw."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen: c.ClusterSeen | None = None
        self._seen_at = self._asked_at = self._told_at = float("-inf")
        #: What the last event was about.
        self._told: tuple[object, ...] = ()

    def look(self) -> None:
        """Want a picture while a task waits."""
        now, tasks = self._context.now, self._context.state.tasks.values()
        if not any(task.stage in (Stage.REQUESTED, Stage.ENDED) for task in tasks):
            self._told = ()  # the next wait is news, whatever its reason
        if now - self._asked_at < _LOOK_EVERY_S:
            return
        if any(task.stage is Stage.REQUESTED and now - task.waiting_since > _SHORT_S for task in tasks):
            self._asked_at = now
            self._context.command(c.LookAtCluster())

    def seen(self, seen: c.ClusterSeen) -> None:
        """The runtime's picture; the journal hears of it when the reason or the number of missing tasks changes."""
        self._seen, self._seen_at = seen, self._context.now
        lacks = self._lacks()
        missing = tuple((lack.role, lack.missing) for lack in lacks)
        about = (missing, reason(lacks, seen.nodes, seen.queue).partition(":")[0])
        if lacks and about != self._told and self._context.now - self._told_at >= _TELL_EVERY_S:
            self._told, self._told_at = about, self._context.now
            self._context.record(ev.ContainersAwaited(message=self.words()))

    def words(self) -> str:
        """What is waited for, and why; '' when nothing is."""
        state = self._context.state
        left = state.gang.ask_at - self._context.wall
        if left > 0 and not state.verdict:
            return f"gave its containers back so that other jobs can go on; asks again in {Duration(round(left))}"
        seen = self._seen if self._context.now - self._seen_at < _OLD_S else None
        return sentence(self._lacks(), seen.nodes, seen.queue) if seen else sentence(self._lacks())

    def _lacks(self) -> list[Lack]:
        state, waiting = self._context.state, dict.fromkeys(ORDER, 0)
        for task in state.tasks.values():
            waiting[task.id.role] += task.stage is Stage.REQUESTED
        specs = state.config.job.roles
        return [Lack(role, number, state.wanted(role), specs[role]) for role, number in waiting.items() if number]
