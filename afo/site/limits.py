"""Policy of a site: mandatory tags, forbidden queues, caps. Pure; the client asks before it submits.

Whoever can start a job on the cluster by other means is not held by this: queues, their limits and their access lists
are YARN's.
"""

import fnmatch
from collections.abc import Iterator
from typing import Annotated, NamedTuple

from msgspec import Meta, field

from afo.errors import SpecError
from afo.formats.units import Duration, Memory
from afo.formats.yaml_tree import Document, Steps, path_text
from afo.job import Job, Role, RoleSpec, Section

_Count = Annotated[int, Meta(ge=0)]


class RoleLimits(Section, frozen=True):
    """The most that a role may ask for; what is left out has no limit."""

    instances: Annotated[_Count | None, Meta(description="Containers.")] = None
    memory: Annotated[Memory | None, Meta(description="Of a container.")] = None
    vcores: Annotated[_Count | None, Meta(description="Of a container.")] = None
    gpus: Annotated[_Count | None, Meta(description="Of a container.")] = None


class JobLimits(Section, frozen=True):
    """The most that all containers of a job, the AM's among them, may ask for."""

    containers: _Count | None = None
    memory: Memory | None = None
    vcores: _Count | None = None
    gpus: _Count | None = None
    timeout: Annotated[Duration | None, Meta(description="The largest `timeouts.job`.")] = None


class Limits(Section, frozen=True):
    """What every job of this site has to keep to."""

    tags: Annotated[
        dict[str, tuple[str, ...]], Meta(description="Tags that a job needs: patterns of values, or [] for any value.")
    ] = field(default_factory=dict)
    forbidden_queues: Annotated[
        tuple[str, ...], Meta(description="Patterns of queues, e.g. `default` or `root.prod.*`.")
    ] = ()
    roles: dict[Role, RoleLimits] = field(default_factory=dict)
    job: JobLimits = JobLimits()

    def check(self, job: Job, site: Document) -> None:
        """Raises `SpecError` about the first one that a job exceeds: its place in the job and in the site's file."""
        first = next(_violations(job, self), None)
        if first is not None:
            where, what, steps = first
            at = ("limits", *steps)
            raise SpecError(f"{where}: {what}; so says {site.place(at)}, {path_text(at)}")


NO_LIMITS = Limits()


class Total(NamedTuple):
    """All containers of a job, the AM's among them, at their largest number."""

    containers: int
    memory: Memory
    vcores: int
    gpus: int


def total(job: Job) -> Total:
    """What the job asks for."""
    specs = job.roles.values()
    return Total(
        sum(spec.count for spec in specs) + 1,
        Memory(sum(spec.memory * spec.count for spec in specs) + job.am.memory),
        sum(spec.vcores * spec.count for spec in specs) + job.am.vcores,
        sum(spec.gpus * spec.count for spec in specs),
    )


#: The place in the job file, what is wrong, and the limit that says so.
_Violation = tuple[str, str, Steps]


def _violations(job: Job, limits: Limits) -> Iterator[_Violation]:
    yield from _tags(job, limits)
    yield from _queue(job, limits)
    for role, spec in job.roles.items():
        yield from _role(role, spec, limits.roles.get(role, RoleLimits()))
    yield from _whole(job, limits.job)


def _tags(job: Job, limits: Limits) -> Iterator[_Violation]:
    for name, patterns in limits.tags.items():
        value, where, allowed = job.tags.get(name), f"$.tags.{name}", ", ".join(patterns) or "any text"
        if not value:
            yield where, f"a job needs the tag `{name}`; add it (allowed: {allowed})", ("tags", name)
        elif patterns and not any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns):
            yield where, f"{value!r} is not allowed; allowed: {allowed}", ("tags", name)


def _queue(job: Job, limits: Limits) -> Iterator[_Violation]:
    for index, pattern in enumerate(limits.forbidden_queues):
        if _names(job.queue, pattern):
            yield "$.queue", f"{job.queue!r} is forbidden; choose another queue", ("forbidden_queues", index)


def _names(queue: str, pattern: str) -> bool:
    """A queue is written in full, without `root.`, or, where that is enough, by its last part alone."""
    full, wanted = f"root.{queue.removeprefix('root.')}", f"root.{pattern.removeprefix('root.')}"
    last = pattern.rsplit(".", 1)[-1]
    alone = "." not in queue and last != "*" and fnmatch.fnmatchcase(queue, last)
    return alone or fnmatch.fnmatchcase(full, wanted)


def _role(role: Role, spec: RoleSpec, limits: RoleLimits) -> Iterator[_Violation]:
    for key, asked in (
        ("instances", spec.count), ("memory", spec.memory), ("vcores", spec.vcores), ("gpus", spec.gpus),
    ):  # fmt: skip
        most: int | None = getattr(limits, key)
        if most is not None and asked > most:
            yield f"$.roles.{role}.{key}", f"{asked} is more than the {most} allowed", ("roles", role, key)


def _whole(job: Job, limits: JobLimits) -> Iterator[_Violation]:
    for key, asked in total(job)._asdict().items():
        most: int | None = getattr(limits, key)
        if most is not None and asked > most:
            what = f"{key} in all: {asked} asked for, {most} allowed; ask for fewer or smaller containers"
            yield "$.roles", what, ("job", key)
    if limits.timeout is not None and job.timeouts.job > limits.timeout:
        what = f"{job.timeouts.job} is more than the {limits.timeout} allowed"
        yield "$.timeouts.job", what, ("job", "timeout")
