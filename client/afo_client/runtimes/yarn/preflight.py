"""Preflight checks: what can be refused before anything is sent to the cluster."""

import difflib
from collections.abc import Iterator, Sequence

from afo.errors import ClusterUnreachable, SpecError
from afo.formats.units import Memory
from afo.job import Job
from afo.yarn.queues import GPU, Queue, Resource
from afo.yarn.resource_manager import ClusterNode, Offer


def check(job: Job, offer: Offer) -> None:
    """Hold the job's queue and containers against what the cluster can give.

    Raises `SpecError` naming the place in the job file, `ClusterUnreachable` for a cluster without nodes.
    """
    if not offer.scheduler.makes_queues:
        check_queue(job.queue, offer.scheduler.queues)
    check_sizes(job, offer.nodes, offer.largest)


def check_queue(name: str, queues: Sequence[Queue]) -> None:
    """Raises `SpecError` unless `name` is a running leaf queue, written in full or by its last part."""
    if not queues:
        return
    found = [queue for queue in queues if name in (queue.path, queue.name)]
    if not found:
        near = difflib.get_close_matches(name, [name for queue in queues for name in (queue.path, queue.name)], 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        known = ", ".join(queue.path for queue in queues[:20]) + (", …" if len(queues) > 20 else "")
        raise SpecError(f"$.queue: the cluster has no queue {name!r}; {hint}It has: {known}")
    if all(queue.state != "RUNNING" for queue in found):
        raise SpecError(f"$.queue: {found[0].path!r} is {found[0].state.lower()}, it takes no applications now")


def check_sizes(job: Job, nodes: Sequence[ClusterNode], largest: Resource) -> None:
    """Raises `SpecError` for a container that fits no node, `ClusterUnreachable` where there are no nodes."""
    if not nodes:
        raise ClusterUnreachable("the cluster has no running NodeManager; `yarn node -list -all` shows the others")
    for where, memory, vcores, label in _containers(job):
        if memory > largest.memory:
            raise SpecError(_too_large(f"{where}.memory", str(Memory(memory)), str(Memory(largest.memory))))
        if vcores > largest.vcores:
            raise SpecError(_too_large(f"{where}.vcores", str(vcores), str(largest.vcores)))
        _check_label(where, memory, label, nodes)
    _check_gpus(job, largest.gpus)


def _check_gpus(job: Job, most: int | None) -> None:
    for role, spec in job.roles.items():
        where = f"$.roles.{role}.gpus"
        if most == 0 and spec.gpus:
            raise SpecError(f"{where}: {spec.gpus} requested, but the cluster has no resource {GPU}; set it to 0")
        if most is not None and spec.gpus > most:
            raise SpecError(_too_large(where, str(spec.gpus), str(most)))


def _containers(job: Job) -> Iterator[tuple[str, int, int, str]]:
    yield "$.am", job.am.memory, job.am.vcores, ""
    for role, spec in job.roles.items():
        yield f"$.roles.{role}", spec.memory, spec.vcores, spec.node_label


def _check_label(where: str, memory: int, label: str, nodes: Sequence[ClusterNode]) -> None:
    fitting = [node.memory for node in nodes if (label in node.labels if label else not node.labels)]
    if label and not fitting:
        known = ", ".join(sorted({name for node in nodes for name in node.labels})) or "none is defined"
        raise SpecError(f"{where}.node_label: no running node has the label {label!r}; labels: {known}")
    if fitting and memory > max(fitting):
        raise SpecError(_too_large(f"{where}.memory", str(Memory(memory)), str(Memory(max(fitting)))))


def _too_large(where: str, asked: str, most: str) -> str:
    return f"{where}: {asked} is more than any container may have here, the largest is {most}; ask for less"
