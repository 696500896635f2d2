"""The context of a decision: the state, the clocks of the present stimulus, and where decisions go. Pure."""

from dataclasses import dataclass, field

from afo.errors import AfoError
from afo.events import types as ev
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am.state import commands as c
from afo_am.state.apply import apply
from afo_am.state.job_state import JobState
from afo_am.state.process_work import Works
from afo_am.state.rates import Rates
from afo_am.state.tasks import Task


@dataclass
class Outcome:
    """What follows from one stimulus."""

    reply: m.Message | None = None
    #: Goes to the sender in place of a reply.
    error: AfoError | None = None
    events: list[ev.AnyEvent] = field(default_factory=list)
    commands: list[c.Command] = field(default_factory=list)


class Context:
    """The state changes by `record` alone; `wall` and `now` (monotonic) are those of the present stimulus."""

    def __init__(self, config: AmConfig, now: float) -> None:
        self.state = JobState(config)
        self.rates, self.works = Rates(), Works()
        self.now, self.wall = now, 0.0
        #: Monotonic clock when this incarnation began.
        self.begun = now
        #: The last word of the start before, on the wall clock; 0 for the first.
        self.heard_before = 0.0
        self._out = Outcome()
        #: Handles already asked to end, so that one kill is sent once.
        self._killed: set[str] = set()

    def begin(self, *, now: float, wall: float) -> Outcome:
        """The outcome of the stimulus that is decided on from here."""
        self.now, self.wall, self._out = now, wall, Outcome()
        return self._out

    def record(self, event: ev.AnyEvent) -> None:
        """Decide: the event is journaled before anything else happens, and applied at once."""
        self._out.events.append(event)
        apply(self.state, event, self.wall)

    def command(self, command: c.Command) -> None:
        """Want something done after the events are durable."""
        self._out.commands.append(command)

    def kill_container(self, task: Task) -> None:
        """End a task's container, once."""
        if task.handle and not task.container_over:
            self.kill_handle(task.handle)

    def kill_handle(self, handle: str) -> None:
        """End a container that no task wants."""
        if handle not in self._killed:
            self._killed.add(handle)
            self.command(c.KillContainer(handle))

    def unheard_s(self, task: Task) -> float:
        """Seconds since a task was heard of, by this start of the AM or, as it may be, the one before."""
        if task.last_seen > self.begun or not self.heard_before:
            return self.now - task.last_seen
        return max(0.0, self.wall - self.heard_before)
