"""Sizes and queues in the answers of YARN's ResourceManager, whichever its scheduler. Memory in MiB."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from afo.errors import ProtocolError
from afo.formats.decoding import known

_T = TypeVar("_T")
#: YARN's name of the resource.
GPU = "yarn.io/gpu"


class _Type(Struct, frozen=True):
    name: str
    value: int


class _Types(Struct, frozen=True):
    all: tuple[_Type, ...] = field(name="resourceInformation", default=())


class Resource(Struct, frozen=True, kw_only=True):
    """Size of a container, memory in MiB."""

    memory: int
    vcores: int = field(name="vCores")
    types: _Types | None = field(name="resourceInformations", default=None)

    @property
    def gpus(self) -> int | None:
        """None for a ResourceManager that does not tell all types of resources."""
        if self.types is None:
            return None
        return sum(kind.value for kind in self.types.all if kind.name == GPU)


class QueueUse(Struct, frozen=True, kw_only=True):
    """What a queue may have and has; None for what its scheduler does not say."""

    guaranteed: Resource | None = None
    #: It may grow so far while other queues leave room.
    most: Resource | None = None
    used: Resource | None = None
    #: Asked for by its applications and not given yet.
    pending: Resource | None = None
    pending_containers: int | None = None
    #: Applications that run, and that wait for their Application Master's container.
    active: int | None = None
    waiting: int | None = None


class Queue(Struct, frozen=True, kw_only=True):
    """A leaf queue: the only kind that takes applications."""

    path: str
    state: str = "RUNNING"
    use: QueueUse = QueueUse()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit(".", 1)[-1]


def with_waiting(queue: Queue, number: int) -> Queue:
    """The queue with at least `number` of its applications waiting.

    The capacity scheduler takes one as active as soon as its limits let it in, long before its Application Master may
    have a container.
    """
    use = queue.use
    waiting = max(number, use.waiting or 0)
    active = use.active and max(0, use.active + (use.waiting or 0) - waiting)
    return replace(queue, use=replace(use, active=active, waiting=waiting))


class Scheduler(NamedTuple):
    """Its leaf queues, none where it has no queues.

    `makes_queues`: naming a queue makes it. The FairScheduler's does; that it was told not to, it does not say.
    """

    queues: list[Queue]
    makes_queues: bool


def leaves(queue: Mapping[str, Any], parent: str = "") -> Iterator[Queue]:
    """The leaf queues below one. Raises `ProtocolError`."""
    name = str(queue.get("queueName", ""))
    path = str(queue.get("queuePath") or (name if not parent or name.startswith(f"{parent}.") else f"{parent}.{name}"))
    below = queue.get("queues") or queue.get("childQueues") or {}
    children = below.get("queue", []) if isinstance(below, dict) else below
    for child in children:
        yield from leaves(child, path)
    if name and not children and parent:
        yield Queue(path=path, state=str(queue.get("state", "RUNNING")), use=_use(queue))


def _use(queue: Mapping[str, Any]) -> QueueUse:
    """From the names of the capacity scheduler, or else of the fair scheduler."""

    def first(kind: type[_T], *names: str) -> _T | None:
        found = next((queue[name] for name in names if queue.get(name) is not None), None)
        return None if found is None else convert_answer(found, kind)

    return QueueUse(
        guaranteed=first(Resource, "minEffectiveCapacity", "steadyFairResources", "minResources"),
        most=first(Resource, "maxEffectiveCapacity", "maxResources"),
        used=first(Resource, "resourcesUsed", "usedResources"),
        pending=_pending(queue),
        pending_containers=first(int, "pendingContainers"),
        active=first(int, "numActiveApplications", "numActiveApps"),
        waiting=first(int, "numPendingApplications", "numPendingApps"),
    )


def _pending(queue: Mapping[str, Any]) -> Resource | None:
    """Over all node labels. The fair scheduler tells the demand, which holds what is used already."""
    if demand := queue.get("demandResources"):
        wanted, used = convert_answer(demand, Resource), convert_answer(queue.get("usedResources"), Resource)
        return Resource(memory=max(0, wanted.memory - used.memory), vcores=max(0, wanted.vcores - used.vcores))
    labels = (queue.get("resources") or {}).get("resourceUsagesByPartition") or []
    parts = [convert_answer(label.get("pending"), Resource) for label in labels]
    if not parts:
        return None
    return Resource(memory=sum(part.memory for part in parts), vcores=sum(part.vcores for part in parts))


def convert_answer(value: object, kind: type[_T]) -> _T:
    """A part of an answer as `kind`. Raises `ProtocolError`."""
    try:
        return msgspec.convert(value, known(kind))
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the ResourceManager's answer is not understood: {error}") from error
