"""The machines now: what YARN has on them and what the jobs here run there, and who waits for room. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType

from msgspec import Struct

from afo.yarn.queues import Queue
from afo.yarn.resource_manager import ClusterNode
from afo_history_server.model.job_history import Attempt, JobHistory


class JobTasks(Struct, frozen=True, kw_only=True):
    """Containers of one job: how many of each role, and the memory asked for them, in MiB."""

    job_id: str
    name: str
    roles: dict[str, int]
    memory: int
    vcores: int


class Node(Struct, frozen=True, kw_only=True):
    """A machine. Memory in MiB, None where YARN was not asked; `state` as YARN has it, '' likewise."""

    host: str
    state: str = ""
    memory: int | None = None
    memory_used: int | None = None
    vcores: int | None = None
    vcores_used: int | None = None
    labels: tuple[str, ...] = ()
    #: Why YARN takes it for unhealthy.
    health: str = ""
    jobs: tuple[JobTasks, ...] = ()


class Waiting(Struct, frozen=True, kw_only=True):
    """Containers that a job has asked for and has not; since when, in seconds since 1970, and why."""

    tasks: JobTasks
    since: float
    queue: str = ""
    why: str = ""


class ClusterView(Struct, frozen=True, kw_only=True):
    """All of it; `nodes` and `queues` with the fullest first."""

    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    waiting: tuple[Waiting, ...] = ()


def hosts_of(jobs: Iterable[JobHistory]) -> set[str]:
    """Where containers of these jobs are."""
    return {attempt.host for job in jobs for attempt in _running(job)}


def cluster_view(
    jobs: Sequence[JobHistory], nodes: Iterable[ClusterNode], queues: Iterable[Queue],
    called: Mapping[str, str] = MappingProxyType({}),
) -> ClusterView:  # fmt: skip
    """Of the `jobs` that run, and what YARN says of its nodes and queues.

    `called`: a machine as a task names it → as YARN does, where they differ.
    """
    names: dict[str, set[str]] = {}
    for host in hosts_of(jobs):
        names.setdefault(called.get(host, host), set()).add(host)
    by_host = {host: _jobs_on(hosts, jobs) for host, hosts in sorted(names.items())}
    known = [_node(node, by_host.pop(node.host, ())) for node in nodes]
    others = [Node(host=host, jobs=tasks) for host, tasks in by_host.items()]
    waiting = [request for job in jobs if (request := _waiting(job))]
    return ClusterView(
        nodes=(*sorted(known, key=_fullest), *others), queues=tuple(sorted(queues, key=_most_wanted)),
        waiting=tuple(sorted(waiting, key=lambda request: request.since)),
    )  # fmt: skip


def _running(job: JobHistory) -> list[Attempt]:
    return [attempt for attempt in job.attempts if attempt.host and not attempt.ended]


def _jobs_on(hosts: Set[str], jobs: Sequence[JobHistory]) -> tuple[JobTasks, ...]:
    found = ((job, [each for each in _running(job) if each.host in hosts]) for job in jobs)
    return tuple(_tasks(job, attempts) for job, attempts in found if attempts)


def _tasks(job: JobHistory, attempts: Sequence[Attempt]) -> JobTasks:
    return JobTasks(
        job_id=job.job_id, name=job.name or job.job_id, roles=dict(Counter(attempt.role for attempt in attempts)),
        memory=sum(attempt.memory for attempt in attempts), vcores=sum(attempt.vcores for attempt in attempts),
    )  # fmt: skip


def _node(node: ClusterNode, jobs: tuple[JobTasks, ...]) -> Node:
    return Node(
        host=node.host, state=node.state, memory=node.memory, memory_used=node.memory_used, vcores=node.vcores,
        vcores_used=node.vcores_used, labels=node.labels, health=node.health, jobs=jobs,
    )  # fmt: skip


def _waiting(job: JobHistory) -> Waiting | None:
    pending = [attempt for attempt in job.attempts if attempt.requested and not attempt.started and not attempt.ended]
    if not pending:
        return None
    since = min(attempt.requested for attempt in pending)
    return Waiting(tasks=_tasks(job, pending), since=since, queue=job.queue, why=job.waiting)


def _fullest(node: Node) -> tuple[bool, float, str]:
    """Those that take no containers at the head: somebody has to look at them."""
    free = (node.memory or 0) - (node.memory_used or 0)
    return node.state == "RUNNING", free / node.memory if node.memory else 1.0, node.host


def _most_wanted(queue: Queue) -> tuple[int, int, str]:
    use = queue.use
    return -(use.pending.memory if use.pending else 0), -(use.used.memory if use.used else 0), queue.path
