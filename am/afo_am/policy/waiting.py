"""Explanation of the wait for containers: what is missing, how full the queue is, why it does not fit. Pure.

A picture of the cluster is wanted while somebody waits; one that does not come is only missing in the words.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from afo.events import types as ev
from afo.formats.units import Duration, Memory
from afo.job import Role, RoleSpec
from afo_am.runtime.base import Node, QueueUse
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

    def observe_cluster(self, seen: c.ClusterSeen) -> None:
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
        return [Lack(role, number, state.count_wanted(role), specs[role]) for role, number in waiting.items() if number]


class Lack(Struct, frozen=True):
    """So many tasks of a role have no container."""

    role: Role
    missing: int
    #: All tasks of the role.
    of: int
    spec: RoleSpec


def sentence(lacks: Sequence[Lack], nodes: Sequence[Node] = (), queue: QueueUse | None = None) -> str:
    """One line; what is not known is left out. '' when nothing is missing."""
    if not lacks:
        return ""
    parts = [f"waiting for {_missing(lacks)}", _queue(queue), _free(_filter_nodes(nodes, lacks[0].spec.node_label))]
    return "; ".join(part for part in (*parts, reason(lacks, nodes, queue)) if part)


def reason(lacks: Sequence[Lack], nodes: Sequence[Node], queue: QueueUse | None) -> str:
    """Why the first of them that does not fit has no container; '' where that is not known."""
    found = (_reason(lack, nodes, queue) for lack in lacks)
    return next((words for words in found if words), "")


def _reason(lack: Lack, nodes: Sequence[Node], queue: QueueUse | None) -> str:
    spec, one, label = lack.spec, f"a {lack.role} ({size(lack.spec)})", lack.spec.node_label
    allowed = _filter_nodes(nodes, label)
    if nodes and not allowed:
        return f"no node has the label {label}" if label else "every node has a label, and the job asks for none"
    if allowed and spec.memory > (most := max(node.memory for node in allowed)):
        return f"{one} is larger than every node: the largest has {Memory(most)}"
    if queue and not label and spec.memory > queue.memory:  # what a queue may have is told for nodes without a label
        return f"{one} is more than the queue may have in all ({Memory(queue.memory)})"
    if queue and not label and spec.memory > queue.memory - queue.memory_used:
        return f"the queue may have {_amount(queue.memory - queue.memory_used)} more, too little for {one}"
    return _no_room(spec, one, allowed)


def _no_room(spec: RoleSpec, one: str, nodes: Sequence[Node]) -> str:
    with_memory = [node for node in nodes if node.memory_free >= spec.memory]
    if nodes and not with_memory:
        return f"no node has room for {one}"
    if with_memory and all(node.vcores_free < spec.vcores for node in with_memory):
        return f"no node with memory for {one} has the vcores for it, if the scheduler counts them"
    return ""


def size(spec: RoleSpec) -> str:
    """A container of a role."""
    gpus = f", {_pluralize(spec.gpus, 'GPU')}" if spec.gpus else ""
    label = f", label {spec.node_label}" if spec.node_label else ""
    return f"{spec.memory}, {_pluralize(spec.vcores, 'vcore')}{gpus}{label}"


def _missing(lacks: Sequence[Lack]) -> str:
    """`3 of 8 workers and 1 of 2 ps (8 GiB, 4 vcores each)`."""
    sizes = {size(lack.spec) for lack in lacks}
    alike = sizes.pop() if len(sizes) == 1 else ""
    texts = [_tasks(lack) + ("" if alike else f" ({size(lack.spec)}{_each_text(lack)})") for lack in lacks]
    text = " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
    return f"{text} ({alike}{_each_text(*lacks)})" if alike else text


def _tasks(lack: Lack) -> str:
    if lack.role in ("chief", "evaluator"):
        return f"the {lack.role}"
    return f"{lack.missing} of {lack.of} {lack.role}{'s' if lack.role == 'worker' and lack.of > 1 else ''}"


def _each_text(*lacks: Lack) -> str:
    return " each" if sum(lack.missing for lack in lacks) > 1 else ""


def _queue(queue: QueueUse | None) -> str:
    if queue is None or not queue.memory:
        return ""
    memory, vcores = queue.memory_used / queue.memory, queue.vcores_used / max(1, queue.vcores)
    # A scheduler that does not count vcores lets them go over 100 %: the memory comes first.
    cores = f" ({vcores:.0%} of its vcores)".replace("%", " %") if vcores > max(memory, 0.9) else ""
    return f"queue {queue.path} {memory:.0%} used".replace("%", " %") + cores


def _free(nodes: Sequence[Node]) -> str:
    if not nodes:
        return ""
    best = max(nodes, key=lambda node: (node.memory_free, node.vcores_free))
    if best.memory_free <= 0:
        return "no node has memory free"
    return f"largest free node {_amount(best.memory_free)} and {_pluralize(max(0, best.vcores_free), 'vcore')}"


def _filter_nodes(nodes: Sequence[Node], label: str) -> list[Node]:
    return [node for node in nodes if (label in node.labels if label else not node.labels)]


def _amount(memory: int) -> str:
    return str(Memory(memory)) if memory > 0 else "nothing"


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
