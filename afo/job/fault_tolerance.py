"""Sections about what goes wrong: who comes back how often, and how long anything may take."""

from typing import Annotated, Literal

from msgspec import Meta

from afo.formats.units import Duration
from afo.job.section import MOST_INT, Role, Section


class RestartBudget(Section, frozen=True):
    """Restarts by fault of the task that are allowed in a window."""

    max: Annotated[int, Meta(ge=0, le=MOST_INT)]
    per: Duration = Duration(3600)


class Backoff(Section, frozen=True):
    """The pause before a restart: none before the first in `reset`, then `initial`, doubled each time, ± 25 %."""

    initial: Duration = Duration(1)
    max: Duration = Duration(60)
    reset: Annotated[Duration, Meta(description="Ends longer ago do not count.")] = Duration(600)


class HostBudget(Section, frozen=True):
    """Ends by fault of a machine that are tolerated before it is avoided, and for how long they count."""

    max: Annotated[int, Meta(ge=0, le=MOST_INT)] = 1
    per: Duration = Duration(3600)


class Slow(Section, frozen=True):
    """When a straggler, a worker of a model, is replaced: its rate against the median of the other workers' rates."""

    below: Annotated[
        float, Meta(ge=0, lt=1, description="A rate below this share of the others' median is slow; 0: none is.")
    ] = 0.3
    over: Annotated[Duration, Meta(description="Time for which it must be slow, in each half of it.")] = Duration(120)

    def __post_init__(self) -> None:
        if self.over < 10:
            raise ValueError(f"`over` is {self.over}; at least 10 s: rates come once a second")


class Restart(Section, frozen=True):
    """How tasks are restarted: a budget for each role, and common pauses."""

    chief: RestartBudget = RestartBudget(max=5)
    worker: RestartBudget = RestartBudget(max=5)
    ps: RestartBudget = RestartBudget(max=5)
    evaluator: RestartBudget = RestartBudget(max=5)
    backoff: Backoff = Backoff()
    host: HostBudget = HostBudget()
    slow: Slow = Slow()
    scope: Annotated[
        Literal["job", "task"],
        Meta(description="For a `program`: when a task restarts, `job` restarts the processes of all others in place; "
             "`task` leaves them alone."),
    ] = "job"  # fmt: skip

    def of(self, role: Role) -> RestartBudget:
        """The budget of a role."""
        budget: RestartBudget = getattr(self, role)
        return budget


class Timeouts(Section, frozen=True):
    """How long the job waits before it gives up."""

    allocate: Annotated[Duration, Meta(description="For all containers to run.")] = Duration(1800)
    gang: Annotated[
        Duration,
        Meta(description="Without a container for parameter servers, chief or the minimum of workers, while others are "
             "held: those are given back for a while. Grows each time."),
    ] = Duration(300)  # fmt: skip
    stall: Annotated[
        Duration,
        Meta(description="Without a step of any worker, or work of processes that start, restore, save or export."),
    ] = Duration(600)
    hang: Annotated[
        Duration,
        Meta(
            description="Without a step of one task; its stack traces are then taken (`afo events`). A worker that "
            "makes none for three times as long while others train is replaced."
        ),
    ] = Duration(120)
    repair: Annotated[
        Duration,
        Meta(
            description="For a person to repair what ends a task again and again: a full disk, a container that "
            "cannot be started. From the first such end, without progress of that task in between."
        ),
    ] = Duration(1800)
    orphan: Annotated[Duration, Meta(description="For a Child to hear from its AM; then it ends itself.")] = Duration(
        120
    )
    job: Annotated[Duration, Meta(description="For the whole job.")] = Duration(7 * 86400)
    data: Annotated[Duration, Meta(description="For the markers of `data.wait_for`.")] = Duration(6 * 3600)
