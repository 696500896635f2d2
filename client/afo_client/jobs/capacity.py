"""Capacity: whether a job's containers fit into what is free now. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from afo.formats.units import Memory
from afo.job import ROLES, Job
from afo.yarn.resource_manager import ClusterNode


class Capacity(Struct, frozen=True, kw_only=True):
    """The containers of one role (or the AM) against the largest free node that may take them; memory in MiB.

    `fits`: `yes`; `memory` where only cores are short, which matters where the scheduler counts them; `no`.
    """

    role: str
    instances: int
    memory: int
    vcores: int
    free_memory: int
    free_vcores: int
    fits: Literal["yes", "memory", "no"]


def capacities(job: Job, nodes: Sequence[ClusterNode]) -> list[Capacity]:
    """A line for the AM and each role."""
    return [
        _capacity(role, count, memory, vcores, _filter_nodes(nodes, label))
        for role, count, memory, vcores, label in _containers(job)
    ]


def _containers(job: Job) -> Iterator[tuple[str, int, int, int, str]]:
    yield "am", 1, int(job.am.memory), job.am.vcores, ""
    for role, spec in ((role, job.roles[role]) for role in ROLES if role in job.roles):
        yield role, spec.count, int(spec.memory), spec.vcores, spec.node_label


def _filter_nodes(nodes: Sequence[ClusterNode], label: str) -> list[ClusterNode]:
    return [node for node in nodes if (label in node.labels if label else not node.labels)]


def _capacity(role: str, count: int, memory: int, vcores: int, nodes: Sequence[ClusterNode]) -> Capacity:
    best = max(nodes, key=lambda node: (node.memory_free, node.vcores_free), default=None)
    free_memory, free_vcores = (best.memory_free, best.vcores_free) if best else (0, 0)
    whole = any(node.memory_free >= memory and node.vcores_free >= vcores for node in nodes)
    fits: Literal["yes", "memory", "no"] = "yes" if whole else "memory" if free_memory >= memory else "no"
    return Capacity(
        role=role, instances=count, memory=memory, vcores=vcores, free_memory=free_memory, free_vcores=free_vcores,
        fits=fits,
    )  # fmt: skip


def verdict(capacity: Capacity) -> str:
    """The last cell of a line."""
    if capacity.fits == "yes":
        return "yes"
    free = f"{Memory(capacity.free_memory)}, {capacity.free_vcores} vcores" if capacity.free_memory else "nothing"
    if capacity.fits == "memory":
        return f"by memory; short of cores if the scheduler counts them ({free} free)"
    return f"no, the largest free node has {free}"
