"""A task of a job through its attempts. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from afo.errors import AfoError
from afo.protocol.train_task import Progress
from afo.rpc.messages import ExitReport, TaskId, Usage


class Stage(StrEnum):
    """Where a task's present attempt stands.

    requested → allocated → registered → succeeded | ended; an attempt may register before the runtime shows its
    container, and may end from anywhere. `requested` again is the next attempt.
    """

    REQUESTED = "requested"
    ALLOCATED = "allocated"
    REGISTERED = "registered"
    SUCCEEDED = "succeeded"
    ENDED = "ended"


#: Stages in which the present attempt may still do something.
LIVE = frozenset({Stage.REQUESTED, Stage.ALLOCATED, Stage.REGISTERED})


class IllegalTransition(AfoError, RuntimeError):
    """The AM's own mistake: a task was moved along a way that does not exist; the text holds its story."""


class Fault(NamedTuple):
    """An end that the task itself is to blame for. `time` is the wall clock."""

    time: float
    cause: str
    message: str


class Leaving(NamedTuple):
    """Why a worker is to leave, though nothing happened to it; `cause` is a name of `afo.failures.causes.CAUSES`."""

    cause: str
    why: str


class Repair(NamedTuple):
    """Ends in a row that a person has to see to: wall clock of the first, how many; cause and host of the last."""

    since: float
    times: int
    cause: str
    host: str


class Holder(NamedTuple):
    """A parameter server that holds its part of the variables: when its process began, and where it listens."""

    generation: int
    address: str


@dataclass
class Task:
    """State of one role and index."""

    id: TaskId
    stage: Stage = Stage.REQUESTED
    #: The runtime's name of the request; '' until it was placed, kept after the end.
    handle: str = ""
    container: str = ""
    host: str = ""
    log_url: str = ""
    #: True once the runtime said that the container of the present attempt is over, or it was never placed.
    container_over: bool = False
    #: Wall clock of the container's start, 0 while it has not started; charged and cleared at its end.
    running_since: float = 0.0
    #: Ends that used the restart budget, and the number of those that did not.
    faults: list[Fault] = field(default_factory=list)
    free_restarts: int = 0
    #: Wall clock times of both.
    ends: list[float] = field(default_factory=list)
    #: Ends of `NEEDS_REPAIR` without progress since; None where there is none.
    repair: Repair | None = None
    #: Containers given back in a row because of their hosts.
    refusals: int = 0
    #: The runtime's name of the host, which may be another one than the Child's.
    node: str = ""
    #: It is not started again, and the job goes on without it.
    given_up: bool = False
    #: What its Child said when somebody told it to end, until the container's end says why.
    stopped: ExitReport | None = None
    #: The present attempt is to leave; None if it may stay. It does leave, whatever is wanted later.
    leaving: Leaving | None = None
    #: The present attempt is slow, and is not replaced for that.
    stays_slow: bool = False
    #: Hosts on which it was slow, by each name.
    slow_hosts: set[str] = field(default_factory=set)
    #: `ExitReport.number` of the last end of the present attempt's process that counted, and how many did: reports of
    #: an ended generation have numbers too.
    process_ends: int = 0
    in_place: int = 0
    #: Cause of the last attempt's end, '' for the first attempt.
    last_cause: str = ""
    #: Stages entered, for the message of an illegal move.
    story: list[str] = field(default_factory=list)

    # The rest is not in the journal: it comes anew with every heartbeat.
    #: Monotonic clock of the last sign of life.
    last_seen: float = 0.0
    #: Monotonic clock since when it has no container; 0 while it has one. Asking again does not change it.
    waiting_since: float = 0.0
    #: Monotonic clock before which it is not started again; a restarted AM forgets the pause.
    not_before: float = 0.0
    #: Monotonic clock since when it has been told to leave; None before.
    leaves_since: float | None = None
    #: Address kept for a server of generation `address_generation`; parameter servers only.
    address: str = ""
    address_generation: int = 0
    process_alive: bool = False
    #: That its process is stopped, in words.
    halted: str = ""
    #: `TaskAtWork` was told of its present process.
    at_work: bool = False
    progress: Progress | None = None
    usage: Usage = field(default_factory=Usage)

    def move(self, to: Stage) -> None:
        """Enter `to`. Raises `IllegalTransition`."""
        enter = TRANSITIONS.get((self.stage, to))
        self.story.append(f"{self.id.attempt}: {self.stage} → {to}")
        if enter is None:
            raise IllegalTransition(
                f"{self.id} cannot go from {self.stage} to {to}; its story: {', '.join(self.story[-20:])}"
            )
        self.stage = to
        enter(self)


def _stay(task: Task) -> None:
    """Nothing else changes."""


def _leave(task: Task) -> None:
    task.address = ""
    task.process_alive = False


def _begin_again(task: Task) -> None:
    task.id = TaskId(role=task.id.role, index=task.id.index, attempt=task.id.attempt + 1)
    task.handle = task.container = task.host = task.node = task.address = ""
    task.address_generation = task.process_ends = task.in_place = 0
    task.container_over = task.stays_slow = task.at_work = False
    task.leaving = task.leaves_since = None
    task.stopped = task.progress = None


TRANSITIONS: dict[tuple[Stage, Stage], Callable[[Task], None]] = {
    (Stage.REQUESTED, Stage.ALLOCATED): _stay,
    (Stage.REQUESTED, Stage.REGISTERED): _stay,
    (Stage.ALLOCATED, Stage.REGISTERED): _stay,
    (Stage.REGISTERED, Stage.SUCCEEDED): _leave,
    (Stage.REQUESTED, Stage.ENDED): _leave,
    (Stage.ALLOCATED, Stage.ENDED): _leave,
    (Stage.REGISTERED, Stage.ENDED): _leave,
    # Its generation was lost after it had finished: there is work again.
    (Stage.SUCCEEDED, Stage.ENDED): _leave,
    (Stage.ENDED, Stage.REQUESTED): _begin_again,
}
