"""The wait for containers in words: what is missing, how full the queue is, what is free, why it does not fit. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from afo.formats.units import Memory
from afo.job import Role, RoleSpec
from afo_am.runtime.base import Node, QueueUse


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
    parts = [f"waiting for {_missing(lacks)}", _queue(queue), _free(_allowed(nodes, lacks[0].spec.node_label))]
    return "; ".join(part for part in (*parts, reason(lacks, nodes, queue)) if part)


def reason(lacks: Sequence[Lack], nodes: Sequence[Node], queue: QueueUse | None) -> str:
    """Why the first of them that does not fit has no container; '' where that is not known."""
    found = (_reason(lack, nodes, queue) for lack in lacks)
    return next((words for words in found if words), "")


def _reason(lack: Lack, nodes: Sequence[Node], queue: QueueUse | None) -> str:
    spec, one, label = lack.spec, f"a {lack.role} ({size(lack.spec)})", lack.spec.node_label
    allowed = _allowed(nodes, label)
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
    gpus = f", {_counted(spec.gpus, 'GPU')}" if spec.gpus else ""
    label = f", label {spec.node_label}" if spec.node_label else ""
    return f"{spec.memory}, {_counted(spec.vcores, 'vcore')}{gpus}{label}"


def _missing(lacks: Sequence[Lack]) -> str:
    """`3 of 8 workers and 1 of 2 ps (8 GiB, 4 vcores each)`."""
    sizes = {size(lack.spec) for lack in lacks}
    alike = sizes.pop() if len(sizes) == 1 else ""
    texts = [_tasks(lack) + ("" if alike else f" ({size(lack.spec)}{_each(lack)})") for lack in lacks]
    text = " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
    return f"{text} ({alike}{_each(*lacks)})" if alike else text


def _tasks(lack: Lack) -> str:
    if lack.role in ("chief", "evaluator"):
        return f"the {lack.role}"
    return f"{lack.missing} of {lack.of} {lack.role}{'s' if lack.role == 'worker' and lack.of > 1 else ''}"


def _each(*lacks: Lack) -> str:
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
    return f"largest free node {_amount(best.memory_free)} and {_counted(max(0, best.vcores_free), 'vcore')}"


def _allowed(nodes: Sequence[Node], label: str) -> list[Node]:
    return [node for node in nodes if (label in node.labels if label else not node.labels)]


def _amount(memory: int) -> str:
    return str(Memory(memory)) if memory > 0 else "nothing"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
