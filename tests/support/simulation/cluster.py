"""The fake cluster with a world around it: hosts, a ResourceManager that may be away, a network, an AM that may die."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from afo.errors import PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.events.split_list import EVENT_BYTES
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am.core.core import Core, Outcome
from afo_am.runtime.base import ContainerInfo
from afo_am.state import commands as c
from afo_am.state import invariants
from fake_cluster import FakeCluster, FakeTask
from journaled_state import journaled_state
from simulation.broken import Broken
from simulation.ledger import Ledger
from simulation.network import OF_CHILDREN, Lost, Network
from simulation.source import Source


class SimulatedCluster(FakeCluster):
    """What the faults of `simulation.faults` disturb, and the checks look at."""

    def __init__(
        self, config: AmConfig, seed: int, *, loss: float = 0.0, repeats: float = 0.0, gives: float = 1.0,
        hosts: int = 3, look_every: int = 1, source: Source | None = None, event_bytes: int = EVENT_BYTES,
        torn_starts: int = 0,
    ) -> None:  # fmt: skip
        self.source, self._event_bytes, self._torn_starts = source, event_bytes, torn_starts
        #: All training files that there will have been.
        self.files = list(source.files) if source else config.splits
        self._watching = random.Random(f"watching {seed}")
        self.ledger = Ledger(config)
        #: Causes of failure that the world gave reason for.
        self.provoked = self.ledger.provoked
        self.network = Network(random.Random(~seed), loss, repeats)
        self.hosts = hosts
        #: How likely a request gets its container in a turn.
        self.gives = gives
        #: Stimuli that decide something between two looks at the invariants.
        self.look_every = look_every
        self.stimuli = self._decisions = 0
        #: The AM dies with the next decision, after so many of its commands; below 0: before it is durable.
        self.dies_after: int | None = None
        #: What the monotonic clock shows at wall clock 0; another one on every machine.
        self.clock = -900.0
        #: Until when the ResourceManager does not answer, and what the AM's hands hold meanwhile.
        self.outage_until = 0.0
        self.held: list[c.Command] = []
        #: Requests that the ResourceManager forgot.
        self.unanswered: set[str] = set()
        #: Until when a Child stands still, and its machine is cut off too, by handle.
        self.frozen: dict[str, float] = {}
        self.cut: dict[str, float] = {}
        #: When a kill reaches its container.
        self.kills: dict[str, float] = {}
        #: Children that live on though their container counts as ended.
        self.zombies: list[FakeTask] = []
        #: Reports that the AM has not answered: last words, and checkpoints.
        self.unsaid: dict[str, m.ExitReport | m.CheckpointReport] = {}
        self.unreported: m.SavingReport | m.CheckpointReport
        #: What is to go wrong at a certain time.
        self.appointments: list[tuple[float, Callable[[], None]]] = []
        #: Role and index of a task whose containers end as soon as they run.
        self.doomed: tuple[str, int] | None = None
        #: Containers in which a worker trains slowly.
        self.slow_handles: set[str] = set()
        #: The number of workers that somebody wanted last; several while an answer was lost.
        self.wanted = {config.job.roles["worker"].count}
        if loss > 0.02:
            self.ledger.slowed = None
        #: Who applied records of each split last.
        self._readers: dict[int, FakeTask] = {}
        self.story: list[tuple[float, str]] = []
        self.faults: Counter[str] = Counter()
        super().__init__(config, seed)

    # -- the AM ------------------------------------------------------------------------------------------------------

    def start_am(self) -> None:
        """A new core replays what is durable and goes on."""
        self.incarnation += 1
        self.dies_after = None
        self.held.clear()
        self.core = Core(self.config, now=self.time + self.clock)
        self.core._discovery.event_bytes = self._event_bytes
        for event, wall in self.log:
            self.core.replay(event, wall)
        started = ev.AmStarted(
            am_attempt=self.am_attempt, incarnation=self.incarnation, address="a:1", host="a", pid=self.incarnation
        )
        outcome = self.core.start(started, self.config.job_id, now=self.time + self.clock, wall=self.time)
        if self._torn_starts:
            self._tear(outcome)
        else:
            self._carry_out(outcome)

    def _tear(self, outcome: Outcome) -> None:
        """The AM ends when a part of the list of splits is durable, or all of it, and nothing behind it."""
        self._torn_starts -= 1
        names = sum(isinstance(event, ev.JobStarted | ev.SplitsAdded) for event in outcome.events)
        self._carry_out(Outcome(events=outcome.events[: self._watching.randint(0, names)]), last=True)
        self.start_am()

    def restart_am(self) -> None:
        """The AM's process ends between two decisions; what the next one replays must be what this one knew."""
        before = journaled_state(self.core)
        replayed = Core(self.config, now=0.0)
        for event, wall in self.log:
            replayed.replay(event, wall)
        after = journaled_state(replayed)
        if wrong := [key for key, value in before.items() if after[key] != value]:
            raise Broken(f"a replay of the events differs in {', '.join(wrong)}")
        self.start_am()

    def lose_am_container(self) -> None:
        """YARN ends all containers and starts another application attempt on another machine."""
        for lost in (self.frozen, self.cut, self.kills, self.unsaid, self.unanswered, self.zombies):
            lost.clear()
        self.clock = self.random.uniform(-900, 5000)
        super().lose_am_container()

    def tell(self, stimulus: object) -> m.Message | None:
        """One stimulus. Raises `Lost`, or what the AM answers with."""
        if type(stimulus) not in OF_CHILDREN:
            return self._handle(stimulus)
        if isinstance(stimulus, m.SavingReport | m.CheckpointReport):
            self.unreported = stimulus
        return self.network.send(stimulus, self._handle)

    def _handle(self, stimulus: object) -> m.Message | None:
        outcome = self.core.handle(stimulus, now=self.time + self.clock, wall=self.time)
        self.ledger.stimulus = stimulus
        if self.dies_after is not None and outcome.events:
            self._die(outcome, self.dies_after)
        self._carry_out(outcome)
        self.stimuli += 1
        self._decisions += bool(outcome.events)
        if outcome.events and self._decisions % self.look_every == 0:  # the state changes with events alone
            self.look()
        if outcome.error is not None:
            raise outcome.error
        if isinstance(stimulus, m.HeartbeatRequest):
            self.ledger.heard(stimulus)
        return outcome.reply

    def look(self) -> None:
        """At the invariants."""
        if words := invariants.broken(self.core.state):
            raise Broken(f"invariant: {words}")

    def _die(self, outcome: Outcome, after: int) -> None:
        if after >= 0:
            self._carry_out(Outcome(events=outcome.events, commands=outcome.commands[:after]), last=True)
        self.start_am()
        raise Lost

    def _carry_out(self, outcome: Outcome, last: bool = False) -> None:
        """`last`: the AM dies before it hears of the results."""
        for event in outcome.events:
            self.log.append((event, self.time))
            self.ledger.take(event, self.time)
        incarnation = self.incarnation
        for command in outcome.commands:
            if self.incarnation != incarnation:
                return
            if self.outage_until > self.time:
                self.held.append(command)
            else:
                self._obey_am(command, last)

    def _obey_am(self, command: c.Command, last: bool = False) -> None:
        match command:
            case c.RequestContainer(task):
                handle = f"c{next(self._numbers)}"
                self.containers[handle] = ContainerInfo(handle=handle, state="requested")
                self.children[handle] = FakeTask(task, handle)
                if not last:
                    with contextlib.suppress(Lost):
                        self.tell(c.ContainerPlaced(task, handle))
            case c.KillContainer(handle):
                self.killed.append(handle)
                until = self.cut.get(handle, 0.0)
                self.kills[handle] = until if until > self.time else self.time + self.random.choice((0, 0, 0, 2, 5))
                self._kill_what_is_reached()
            case c.FinishJob():
                if self.finished is not None and self.finished.state != command.state:
                    raise Broken(f"the runtime was told {self.finished.state} first, then {command.state}")
                self.finished = command

    # -- the world ---------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Every live Child does one thing; a second passes, or more while nobody works."""
        self.time += 5 if self.doomed else 1 if self.live("worker", "chief") else 3
        if self.outage_until <= self.time:
            held, self.held = self.held, []
            incarnation = self.incarnation
            for command in held:
                if self.incarnation == incarnation:
                    self._obey_am(command)
        self._kill_what_is_reached()
        for _, happens in [each for each in self.appointments if each[0] == self.time]:
            happens()
        self.network.deliver_late(self._handle)
        self._watch()
        self.allocate()
        self.poll()
        self._doom()
        for child in self.random.sample(self.live(), len(self.live())):
            if child.handle in self.children:
                self._child_turn(child)
        self._zombies_turn()

    def _watch(self) -> None:
        splits = self.core.state.splits
        found = self.source and self.source.look(self.time, splits.number, splits.closed, self._watching)
        if found:
            with contextlib.suppress(Lost):
                self.tell(found)

    def _doom(self) -> None:
        for child in self.live(self.doomed[0]) if self.doomed else ():
            if child.id.index == self.doomed[1]:
                self.end_container(child.handle, "Container released on a *lost* node")

    def poll(self) -> None:
        """The runtime's list where it answers, and time."""
        with contextlib.suppress(Lost):
            if self.outage_until <= self.time:
                self.tell(c.ContainersSeen(tuple(self.containers.values())))
            self.tell(c.Tick())

    def allocate(self) -> None:
        """Some requests get their container."""
        if self.outage_until > self.time:
            return
        for handle, info in self.containers.items():
            if info.state == "requested" and handle not in self.unanswered and self.random.random() < self.gives:
                self.containers[handle] = ContainerInfo(
                    handle=handle, state="running", container=f"x{handle}", host=f"h{self.random.randrange(self.hosts)}"
                )

    def end_container(self, handle: str, diagnostics: str = "") -> None:
        """A container is over, and everything in it."""
        super().end_container(handle, diagnostics)
        for left in (self.frozen, self.cut, self.kills, self.unsaid):
            left.pop(handle, None)

    def lose_sight_of(self, child: FakeTask, diagnostics: str) -> None:
        """YARN counts a container as ended that lives on, on a machine which nobody can reach."""
        self.zombies.append(child)
        self.end_container(child.handle, diagnostics)

    def _kill_what_is_reached(self) -> None:
        for handle in [handle for handle, time in self.kills.items() if time <= self.time]:
            self.end_container(handle, "Container killed by the ApplicationMaster.")
            self.kills.pop(handle, None)

    # -- Children ----------------------------------------------------------------------------------------------------

    def _child_turn(self, child: FakeTask) -> None:
        if max(self.frozen.get(child.handle, 0.0), self.cut.get(child.handle, 0.0)) > self.time:
            return
        with contextlib.suppress(Lost):
            if child.handle in self.unsaid:
                self._say(child)
                return
            if self._stays(child) and child.running and self.random.random() < 0.3:
                self._train(child)  # it may hear of another generation before its Child does
            if child.handle in self.children and child.handle not in self.unsaid:
                super()._child_turn(child)

    def _zombies_turn(self) -> None:
        """They are back: whatever they say, they must be told to end."""
        for child in [each for each in self.zombies if self.random.random() < 0.1]:
            self.zombies.remove(child)
            with contextlib.suppress(Lost):
                directive = self._directive(self.tell(self._registration(child)))
                if directive.action != "end" and not self.ledger.is_live(child.id):
                    raise Broken(f"{child.id} (attempt {child.id.attempt}) ended, came back and was told to run")

    def speed_of(self, child: FakeTask) -> float:
        """A tenth in a slow container."""
        return 0.1 if child.handle in self.slow_handles else super().speed_of(child)

    def _registration(self, child: FakeTask) -> m.RegisterRequest:
        info = self.containers.get(child.handle)
        return replace(super()._registration(child), host=info.host if info else "")

    def _apply(self, child: FakeTask, lease: m.SplitReply) -> None:
        """Applied once, acknowledged until the AM has heard it."""
        self._assert_alone(child, lease)
        self.model.apply(lease.split, lease.epoch, lease.resume)
        child.lease, child.applied = replace(lease, resume=True), True
        super()._apply(child, child.lease)

    def _assert_alone(self, child: FakeTask, lease: m.SplitReply) -> None:
        """No other process of its generation may apply the same records."""
        if not self.ledger.is_live(child.id):
            return  # it reads on for a moment
        other = self._readers.get(lease.split, child)
        held = other.lease if other.handle in self.children and other.joined == child.joined else None
        same = held is not None and (held.split, held.epoch) == (lease.split, lease.epoch)
        if other is not child and same and other.running and self.ledger.is_live(other.id):
            raise Broken(f"{child.id} and {other.id} both read split {lease.split} in epoch {lease.epoch}")
        self._readers[lease.split] = child

    def checkpoint(self, child: FakeTask, final: bool) -> None:
        """Reported until the AM has heard it: nothing else is done before."""
        try:
            super().checkpoint(child, final)
        except Lost:
            self.unsaid[child.handle] = self.unreported
            raise

    def exit(self, child: FakeTask, cause: str, code: int, tail: str = "") -> None:
        """The process ends; the Child says so until it is heard, and leaves."""
        self._last_words(child, cause, code, tail, may_stay=False)

    def fail(self, child: FakeTask, cause: str, code: int, tail: str = "") -> None:
        """The process ends; the Child says so until it is heard, and stays if it may."""
        child.lease, child.failed = None, True
        self._last_words(child, cause, code, tail, self.config.job.restarts_together or not self._listens(child))

    def _last_words(self, child: FakeTask, cause: str, code: int, tail: str, may_stay: bool) -> None:
        child.running = False
        child.ends += may_stay
        self.unsaid[child.handle] = m.ExitReport(
            task=child.id, generation=self._told_by(child), code=code, cause=cause, tail=tail, stays=may_stay,
            number=child.ends if may_stay else 0, progress=self.progress(child) if self._stays(child) else None,
        )  # fmt: skip
        self._say(child)

    def _say(self, child: FakeTask) -> None:
        report, reply = self.unsaid[child.handle], None
        with contextlib.suppress(ProtocolError, PermissionDenied):  # of an ended generation
            reply = self.tell(report)
        self.unsaid.pop(child.handle, None)
        if not isinstance(report, m.ExitReport):
            return
        if not isinstance(reply, m.ExitReply) or not reply.stays:
            self.end_container(child.handle)
        elif not (self._listens(child) or self.core.state.verdict or child.id in self.ledger.in_place):
            raise Broken(f"a process of {child.id} is to start anew in place, and no event says so")
