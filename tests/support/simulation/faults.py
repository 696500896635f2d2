"""What goes wrong in a schedule. A fault disturbs the cluster and says in words what it did; '' if it found nothing."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from afo.errors import NotFound, ProtocolError
from afo.failures.causes import NEEDS_REPAIR
from afo.job import Elastic
from afo.rpc import messages as m
from afo_am.state import commands as c
from fake_cluster import FakeTask
from simulation.cluster import SimulatedCluster
from simulation.network import Lost

#: What YARN says of containers that it takes away, and causes of process ends with their code, by who is to blame.
TAKEN_AWAY = (
    "",
    "Container preempted by scheduler",
    "Container released on a *lost* node",
    "exitCode=-1000: not localized",
)
BY_CLUSTER = (
    ("killed_by_signal", -9), ("disk_full", 1), ("port_in_use", 1), ("storage_unreachable", 1),
    ("container_stopped", -15), ("parameter_server_lost", 1), ("restarts_exhausted", 75),
    ("illegal_instruction", -4), ("child_error", 70),
)  # fmt: skip
BY_USER = (("segmentation_fault", -11), ("aborted", -6), ("failed", 3), ("out_of_memory", -9))
NOT_RETRIED = ("data_error", "spec_error", "file_not_found", "not_finite", "checkpoint_lost", "python_not_found")
#: Exceptions that come again, word for word but for numbers.
EXCEPTIONS = ("RuntimeError: peer 17 is gone", "OSError: [Errno 5] at 0x7f12", "NameError: name 'x'")

Chance = random.Random
Fault = Callable[[SimulatedCluster, Chance], str]


@dataclass(frozen=True)
class Kind:
    """A fault, how often it comes among others, and whether jobs of 1,000 tasks have it."""

    happens: Fault
    weight: float
    for_large: bool = False


#: All kinds by name.
KINDS: dict[str, Kind] = {}


def _kind(weight: float, for_large: bool = False) -> Callable[[Fault], Fault]:
    def add(fault: Fault) -> Fault:
        KINDS[fault.__name__] = Kind(fault, weight, for_large)
        return fault

    return add


def _one(cluster: SimulatedCluster, chance: Chance) -> FakeTask | None:
    live = cluster.live()
    return chance.choice(live) if live else None


def _running(cluster: SimulatedCluster, chance: Chance) -> FakeTask | None:
    live = [child for child in cluster.live() if child.running and child.handle not in cluster.unsaid]
    return chance.choice(live) if live else None


@_kind(4, for_large=True)
def container_taken(cluster: SimulatedCluster, chance: Chance) -> str:
    """YARN ends one container."""
    child = _one(cluster, chance)
    if child is None:
        return ""
    words = chance.choice(TAKEN_AWAY)
    cluster.end_container(child.handle, words)
    return f"{child.id}: {words or 'container gone'}"


@_kind(1)
def over_memory(cluster: SimulatedCluster, chance: Chance) -> str:
    """YARN kills a container for its memory."""
    child = _one(cluster, chance)
    if child is None:
        return ""
    cluster.end_container(child.handle, "is running beyond physical memory limits")
    return f"{child.id}: beyond memory"


@_kind(1, for_large=True)
def host_lost(cluster: SimulatedCluster, chance: Chance) -> str:
    """All containers of a host are over; half of the Children live on unreachable."""
    host = f"h{chance.randrange(cluster.hosts)}"
    gone = [child for child in cluster.live() if cluster.containers[child.handle].host == host]
    for child in gone:
        if child.registered and chance.random() < 0.5:
            cluster.lose_sight_of(child, "Container released on a *lost* node")
        else:
            cluster.end_container(child.handle, "Container released on a *lost* node")
    return f"{host} with {', '.join(str(child.id) for child in gone[:9])}" if gone else ""


@_kind(0.5, for_large=True)
def preempted(cluster: SimulatedCluster, chance: Chance) -> str:
    """Another queue takes a share of all containers."""
    gone = [child for child in cluster.live() if chance.random() < 0.3]
    for child in gone:
        cluster.end_container(child.handle, "Container preempted by scheduler")
    return f"{len(gone)} containers preempted" if gone else ""


@_kind(3, for_large=True)
def process_died(cluster: SimulatedCluster, chance: Chance) -> str:
    """A process ends, by fault of the cluster; its Child says so."""
    return _exit(cluster, chance, *chance.choice(BY_CLUSTER))


@_kind(2, for_large=True)
def process_failed(cluster: SimulatedCluster, chance: Chance) -> str:
    """A process ends, by fault of the user."""
    return _exit(cluster, chance, *chance.choice(BY_USER))


@_kind(0.5)
def process_keeps_dying(cluster: SimulatedCluster, chance: Chance) -> str:
    """A worker's process is killed each time that it has begun anew in its container, until it is given another."""
    live = [child for child in cluster.live("worker") if child.running and child.handle not in cluster.unsaid]
    if not live:
        return ""
    child = max(live, key=lambda each: (each.id.attempt, each.id.index))

    def kill() -> None:
        if child.running and child.handle not in cluster.unsaid and child in cluster.live("worker"):
            with contextlib.suppress(Lost):
                cluster.fail(child, "killed_by_signal", -9)

    step = chance.choice((2, 4, 8))
    for number in range(40 // step):
        cluster.appointments.append((cluster.time + step * number, kill))
    kill()
    return f"{child.id} (attempt {child.id.attempt}) every {step} s"


@_kind(2, for_large=True)
def servers_lost(cluster: SimulatedCluster, chance: Chance) -> str:
    """One parameter server or two at once, each with its process alone or with its container."""
    live = [child for child in cluster.live("ps") if child.running and child.handle not in cluster.unsaid]
    gone = chance.sample(live, min(len(live), chance.choice((1, 1, 2))))
    for child in gone:
        if chance.random() < 0.5:
            cluster.end_container(child.handle)
        else:
            with contextlib.suppress(Lost):
                cluster.fail(child, "killed_by_signal", -9)
    return ", ".join(str(child.id) for child in gone)


@_kind(1)
def exception_raised(cluster: SimulatedCluster, chance: Chance) -> str:
    """A process raises one of a few exceptions."""
    return _exit(cluster, chance, "user_exception", 1, f"{chance.choice(EXCEPTIONS)}{chance.randrange(99)}")


@_kind(0.05)
def hopeless(cluster: SimulatedCluster, chance: Chance) -> str:
    """A process ends with what is not worth another try."""
    return _exit(cluster, chance, chance.choice(NOT_RETRIED), 1, "ValueError: no")


@_kind(3)
def at_the_edge(cluster: SimulatedCluster, chance: Chance) -> str:
    """A process fails as before, to the second when the first time leaves the window of the budget, or after it."""
    child = _running(cluster, chance)
    if child is None:
        return ""
    cause, code, tail = chance.choice((*[("segmentation_fault", -11, "")] * 3, ("user_exception", 1, "KeyError: 'x'")))
    per = cluster.config.job.restart.of(child.id.role).per
    key = (child.id.role, child.id.index)

    def fail() -> None:
        same = [each for each in cluster.live() if (each.id.role, each.id.index) == key and each.running]
        for each in same:
            with contextlib.suppress(Lost):
                cluster.fail(each, cause, code, tail)

    fail()
    cluster.appointments.append((cluster.time + per + chance.choice((0, 0, 1)), fail))
    return f"{child.id}: {cause}, and again in about {per}"


@_kind(2)
def needs_repair(cluster: SimulatedCluster, chance: Chance) -> str:
    """A task ends with what a person has to mend, again half-way, to the second at the end of its time, later."""
    child = _running(cluster, chance)
    if child is None:
        return ""
    cause, limit = chance.choice(sorted(NEEDS_REPAIR)), cluster.config.job.timeouts.repair
    key = (child.id.role, child.id.index)

    def end() -> None:
        same = [each for each in cluster.live() if (each.id.role, each.id.index) == key and each.running]
        for each in same:
            with contextlib.suppress(Lost):
                cluster.exit(each, cause, 1)

    def end_later() -> None:  # to the second when it has run for that long
        cluster.appointments.append((cluster.ledger.lines[key].runs_since + limit, end))

    end()
    again = (limit // 2, limit + chance.choice((0, 1)), 2 * limit)
    cluster.appointments += [(cluster.time + after, chance.choice((end, end, end_later))) for after in again]
    return f"{child.id}: {cause}, and again for {2 * limit} s"


def _exit(cluster: SimulatedCluster, chance: Chance, cause: str, code: int, tail: str = "") -> str:
    child = _running(cluster, chance)
    if child is None:
        return ""
    with contextlib.suppress(Lost):
        (cluster.fail if chance.random() < 0.8 else cluster.exit)(child, cause, code, tail)
    return f"{child.id}: {cause} {tail}".rstrip()


@_kind(2, for_large=True)
def frozen(cluster: SimulatedCluster, chance: Chance) -> str:
    """A Child says nothing for a while, and goes on."""
    child = _one(cluster, chance)
    if child is None:
        return ""
    seconds = chance.choice((5, 30, 34, 40, 90))
    cluster.frozen[child.handle] = cluster.time + seconds
    return f"{child.id} stands still for {seconds} s"


@_kind(1, for_large=True)
def cut_off(cluster: SimulatedCluster, chance: Chance) -> str:
    """A Child says nothing, and kills do not reach it either."""
    child = _one(cluster, chance)
    if child is None:
        return ""
    seconds = chance.choice((10, 40, 60))
    cluster.cut[child.handle] = cluster.time + seconds
    return f"{child.id} is cut off for {seconds} s"


@_kind(1.5, for_large=True)
def am_restarted(cluster: SimulatedCluster, chance: Chance) -> str:
    """The AM's process ends between two decisions."""
    cluster.restart_am()
    return f"incarnation {cluster.incarnation}"


@_kind(2)
def am_died(cluster: SimulatedCluster, chance: Chance) -> str:
    """The AM's process ends within a decision: before it is durable, or after some of its commands."""
    cluster.dies_after = chance.choice((-1, 0, 1, 2))
    return f"with the next decision, after {cluster.dies_after} commands" if cluster.dies_after >= 0 else "undurable"


@_kind(0.7)
def am_container_lost(cluster: SimulatedCluster, chance: Chance) -> str:
    """YARN starts another application attempt."""
    cluster.lose_am_container()
    return f"application attempt {cluster.am_attempt}"


@_kind(1, for_large=True)
def resource_manager_away(cluster: SimulatedCluster, chance: Chance) -> str:
    """No list, no request and no kill for a while."""
    seconds = chance.choice((3, 10, 25))
    cluster.outage_until = cluster.time + seconds
    return f"for {seconds} s"


@_kind(1)
def request_forgotten(cluster: SimulatedCluster, chance: Chance) -> str:
    """The ResourceManager never answers a request."""
    waiting = [handle for handle, info in cluster.containers.items() if info.state == "requested"]
    if not waiting:
        return ""
    cluster.unanswered.add(chance.choice(waiting))
    return f"{len(cluster.unanswered)} so far"


@_kind(0.03)
def request_refused(cluster: SimulatedCluster, chance: Chance) -> str:
    """The runtime takes a request for one that it can never grant."""
    waiting = [child for handle, child in cluster.children.items() if cluster.containers[handle].state == "requested"]
    if not waiting:
        return ""
    child = chance.choice(waiting)
    cluster.provoked.add("launch_failed")
    cluster.end_container(child.handle)
    with contextlib.suppress(Lost):
        cluster.tell(c.CommandFailed(child.id, "larger than the largest container"))
    return f"{child.id}: larger than the largest container"


@_kind(0.03)
def other_version(cluster: SimulatedCluster, chance: Chance) -> str:
    """The container holds another version of afo."""
    child = next((child for child in cluster.live() if not child.registered), None)
    if child is None:
        return ""
    cluster.provoked.add("version_mismatch")
    with contextlib.suppress(Lost):
        cluster.tell(replace(cluster._registration(child), afo_version="9.9"))
    return str(child.id)


@_kind(0.05)
def killed(cluster: SimulatedCluster, chance: Chance) -> str:
    """Somebody ends the job."""
    with contextlib.suppress(Lost):
        cluster.tell(m.KillRequest(user="bob", reason="enough"))
    return "by bob"


@_kind(2)
def ordered(cluster: SimulatedCluster, chance: Chance) -> str:
    """The owner wants something of a task."""
    child = _one(cluster, chance)
    if child is None:
        return ""
    kinds: tuple[m.OrderKind, ...] = ("exec", "stacks", "kill", "checkpoint")
    kind = chance.choice(kinds)
    argv = ("ls",) if kind == "exec" else ()
    with contextlib.suppress(Lost, ProtocolError, NotFound):  # it has no process, or enough orders
        cluster.tell(m.OrderRequest(user="alice", kind=kind, role=child.id.role, index=child.id.index, argv=argv))
    return f"{kind} of {child.id}"


@_kind(0.3)
def never_runs(cluster: SimulatedCluster, chance: Chance) -> str:
    """From now on every attempt of a task ends as soon as it runs, by fault of the cluster."""
    child = _one(cluster, chance)
    if child is None or cluster.doomed is not None:
        return ""
    cluster.doomed = (child.id.role, child.id.index)
    cluster.provoked.add("stalled")  # the others may have done all they can meanwhile
    return f"every attempt of {child.id}"


@_kind(5, for_large=True)
def scaled(cluster: SimulatedCluster, chance: Chance) -> str:
    """Somebody wants another number of workers, or the same; a job whose number is fixed says no."""
    instances = cluster.config.job.roles["worker"].instances
    least, most = (instances.min, instances.max) if isinstance(instances, Elastic) else (1, instances)
    number = chance.randint(least, most)
    try:
        cluster.tell(m.ScaleRequest(user="alice", workers=number))
    except (ProtocolError, NotFound):
        return ""
    except Lost:  # it may have been taken
        cluster.wanted.add(number)
        return f"to {number} workers, and nobody heard the answer"
    cluster.wanted = {number}
    return f"to {number} workers"


@_kind(2, for_large=True)
def slowed(cluster: SimulatedCluster, chance: Chance) -> str:
    """A worker trains at a tenth of the others' rate, and perhaps whoever comes in its place."""
    workers = cluster.live("worker")
    if not workers:
        return ""
    child = chance.choice(workers)
    key = (child.id.role, child.id.index)
    if cluster.ledger.slowed is not None:
        cluster.ledger.slowed.add(key)
    if chance.random() < 0.5:
        cluster.speed[key] = 0.1
        return f"{child.id}, whatever its attempt"
    cluster.slow_handles.add(child.handle)
    return str(child.id)
