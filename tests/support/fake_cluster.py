"""A fake cluster and a fake clock around the real core: whole jobs in milliseconds."""

from __future__ import annotations

import dataclasses
import itertools
import random
import string
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo import __version__
from afo.errors import GenerationOver, PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.job import Data, Job, RoleSpec
from afo.protocol.am_config import AmConfig
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo_am.core.core import Core, Outcome
from afo_am.runtime.base import ContainerInfo
from afo_am.state import commands as c
from afo_am.state import invariants
from fake_parameter_servers import FakeModel, read


def make_config(
    workers: int = 2, ps: int = 2, evaluator: bool = True, files: int = 6, epochs: int = 2, **job: object
) -> AmConfig:
    """A job of `files` splits."""
    roles = {"ps": RoleSpec(instances=ps), "worker": RoleSpec(instances=workers)}
    if evaluator:
        roles["evaluator"] = RoleSpec()
    spec = Job(
        name="test", roles=roles,  # type: ignore[arg-type]
        data=Data(schema="schema.yaml", train=("train-*",), eval=("eval-*",), epochs=epochs), **job,  # type: ignore[arg-type]
    )  # fmt: skip
    return AmConfig(
        job=spec, user="alice", afo_version=__version__, runtime="local", jobs_root="/jobs", job_id="local_1_0001",
        train_files=tuple(f"file:///data/train-{n}" for n in range(files)), secret_file="secret",
        schema_file="schema.yaml", submitted=1.0,
    )  # fmt: skip


@dataclasses.dataclass
class FakeTask:
    """A Child with its trainer, reduced to what the AM sees of them."""

    id: m.TaskId
    handle: str
    registered: bool = False
    generation: int = 0
    running: bool = False
    #: Its process failed and was not started anew yet; how many did.
    failed: bool = False
    ends: int = 0
    restored: bool = False
    lease: m.SplitReply | None = None
    #: Generation that its process is in, and the servers that it knows: from its start, or told of since. Of a server,
    #: the generation of what it holds.
    joined: int = 0
    servers: tuple[str, ...] = ()
    #: Of a process that stays when a server is lost: it makes steps; the file that it reads is applied; it is done, and
    #: its Child has not noticed.
    begun: bool = False
    applied: bool = False
    done: bool = False
    directive: m.Directive | None = None
    leaving: bool = False
    #: Where it listens, '' where it does not.
    address: str = ""
    #: Orders to carry out, and the highest number it ever heard.
    orders: list[m.Order] = dataclasses.field(default_factory=list)
    last_order: int = 0
    #: What its process trained on, and until when that is counted.
    samples: float = 0.0
    counted_at: float = 0.0

    @property
    def process(self) -> tuple[str, int, int]:
        """Another one for every process."""
        return self.handle, self.generation, self.ends

    def start(self, directive: m.Directive) -> None:
        """A process of the directive's generation."""
        self.generation, self.running, self.failed = directive.generation, True, False
        self.go_over(directive.generation, directive.ps)

    def go_over(self, generation: int, servers: tuple[str, ...]) -> None:
        """The process begins in a generation, and holds nothing of an earlier one."""
        self.joined, self.servers = generation, servers
        self.lease, self.begun, self.applied, self.done = None, False, False, False


class FakeCluster:
    """Drives a core as the driver does, with tasks that behave as real ones do, and faults on demand."""

    def __init__(self, config: AmConfig, seed: int = 0) -> None:
        self.config = config
        self.random = random.Random(seed)
        self.time = 1000.0
        self.log: list[tuple[ev.AnyEvent, float]] = []
        self.containers: dict[str, ContainerInfo] = {}
        self.children: dict[str, FakeTask] = {}
        self.finished: c.FinishJob | None = None
        self.killed: list[str] = []
        self.model = FakeModel()
        #: Bad records of each split that has any; all but them were applied.
        self.bad: dict[int, int] = {}
        #: How often a turn of a worker begins with a new process in the same container.
        self.restart_rate = 0.0
        #: How often a turn of a program ends with its process.
        self.failure_rate = 0.0
        #: How often a turn of a program is its last.
        self.success_rate = 0.2
        #: Samples per second of workers that do not do one, by role and index.
        self.speed: dict[tuple[str, int], float] = {}
        #: Numbers of the orders that Children carried out, in that order.
        self.carried_out: list[int] = []
        self._numbers = itertools.count(1)
        self.incarnation = 0
        self.am_attempt = 1
        self.core: Core
        self.start_am()

    # -- the AM --

    def start_am(self) -> None:
        """Start, or restart, the AM: a new core that replays the log."""
        self.incarnation += 1
        self.core = Core(self.config, now=self.time)
        for event, wall in self.log:
            self.core.replay(event, wall)
        started = ev.AmStarted(am_attempt=self.am_attempt, incarnation=self.incarnation, address="a:1", host="a", pid=1)
        self._carry_out(self.core.start(started, self.config.job_id, now=self.time, wall=self.time))

    def lose_am_container(self) -> None:
        """The AM's container is lost: YARN ends all others and starts another attempt, which lists its own alone."""
        self.containers.clear()
        self.children.clear()
        self.am_attempt += 1
        self.start_am()

    def tell(self, stimulus: object) -> m.Message | None:
        """One stimulus; raises what the sender would see raised."""
        outcome = self.core.handle(stimulus, now=self.time, wall=self.time)
        self._carry_out(outcome)
        invariants.check(self.core.state)
        if outcome.error is not None:
            raise outcome.error
        return outcome.reply

    def _carry_out(self, outcome: Outcome) -> None:
        self.log += [(event, self.time) for event in outcome.events]
        placed = []
        for command in outcome.commands:
            match command:
                case c.RequestContainer(task):
                    handle = f"c{next(self._numbers)}"
                    self.containers[handle] = ContainerInfo(handle=handle, state="requested")
                    self.children[handle] = FakeTask(task, handle)
                    placed.append(c.ContainerPlaced(task, handle))
                case c.KillContainer(handle):
                    self.killed.append(handle)
                    self.end_container(handle, "Container killed by the ApplicationMaster.")
                case c.FinishJob():
                    self.finished = command
        for stimulus in placed:
            self.tell(stimulus)

    def poll(self) -> None:
        """The runtime's list, and time."""
        self.tell(c.ContainersSeen(tuple(self.containers.values())))
        self.tell(c.Tick())

    # -- containers --

    def allocate(self) -> None:
        """Every request gets its container."""
        for handle, info in self.containers.items():
            if info.state == "requested":
                self.containers[handle] = ContainerInfo(
                    handle=handle, state="running", container=f"x{handle}", host="h"
                )

    def end_container(self, handle: str, diagnostics: str = "") -> None:
        """A container is over, and everything in it."""
        self.containers[handle] = ContainerInfo(handle=handle, state="ended", diagnostics=diagnostics)
        self.children.pop(handle, None)

    def live(self, *roles: str) -> list[FakeTask]:
        """Children in running containers."""
        return [t for t in self.children.values() if self._is_up(t) and (not roles or t.id.role in roles)]

    # -- tasks --

    def turn(self) -> None:
        """Every live Child does one thing; a second passes."""
        self.time += 1
        self.allocate()
        self.poll()
        for child in self.random.sample(self.live(), len(self.live())):
            if child.handle in self.children:
                self._child_turn(child)

    def _child_turn(self, child: FakeTask) -> None:
        if not child.registered:
            child.directive = self._directive(self.tell(self._registration(child)))
            child.registered = True
        else:
            generation = child.directive.generation if child.directive else 0
            address = ""
            if generation and self._listens(child) and not self._is_kept(child):
                address = child.address = _address(child.handle, generation)
            child.directive = self._directive(
                self.tell(
                    m.HeartbeatRequest(
                        task=child.id, generation=generation, address=address, process_alive=child.running,
                        orders=tuple(order.order for order in child.orders),
                        progress=self.progress(child),
                    )
                )
            )  # fmt: skip
        if self._carry_out_orders(child):
            self._obey(child)

    def progress(self, child: FakeTask) -> Progress:
        """The counters of its process; the last loss falls by the second."""
        return Progress(
            phase="training", samples=self.samples(child), step=int(self.time), loss=1000.0 / self.time,
            generation=child.joined if self._stays(child) else 0,
        )  # fmt: skip

    def speed_of(self, child: FakeTask) -> float:
        """Samples per second."""
        return self.speed.get((child.id.role, child.id.index), 1.0)

    def samples(self, child: FakeTask) -> int:
        """Of its process so far; of one that stays, in its generation."""
        if self._stays(child) and not child.begun:
            child.samples = child.counted_at = 0.0
            return 0
        child.samples += self.speed_of(child) * (self.time - (child.counted_at or self.time))
        child.counted_at = self.time
        return int(child.samples)

    def _carry_out_orders(self, child: FakeTask) -> bool:
        """False when one of them has ended the Child."""
        assert child.directive is not None
        new = [order for order in child.directive.orders if order.order > child.last_order]
        child.last_order = max((order.order for order in new), default=child.last_order)
        child.orders += new
        if not child.orders or self.random.random() < 0.3:
            return True
        order = child.orders.pop(0)
        self.carried_out.append(order.order)
        self.tell(m.OrderResult(task=child.id, order=order.order, output=f"{order.kind} of {child.id}", code=0))
        if order.kind == "kill":
            self.exit(child, "killed_by_user", -15)
        return order.kind != "kill"

    def _directive(self, reply: m.Message | None) -> m.Directive:
        assert isinstance(reply, m.Directive)
        return reply

    def _registration(self, child: FakeTask) -> m.RegisterRequest:
        return m.RegisterRequest(
            task=child.id, container=f"x{child.handle}", host=self.containers[child.handle].host, pid=1,
            afo_version=__version__, protocol=m.PROTOCOL, environment={}, log_url="",
        )  # fmt: skip

    def _obey(self, child: FakeTask) -> None:
        directive = child.directive
        assert directive is not None
        if directive.action == "end":
            self.end_container(child.handle)
        elif child.done:
            self.exit(child, "succeeded", 0)
        elif self._is_kept(child):
            assert not self._listens(child) or directive.action == "wait" or child.address in directive.addresses
            self._train(child)
        elif directive.action == "wait":
            self._assert_lost(child)
            child.running, child.lease = False, None
        elif not self._listens(child) or child.address in directive.addresses:
            self._assert_lost(child)
            called = child.failed and directive.starts >= child.ends
            is_next = not child.failed if self._stays(child) else directive.generation != child.generation
            if is_next or called:
                child.start(directive)
            if not child.failed:
                self._train(child)

    def _assert_lost(self, child: FakeTask) -> None:
        """No process that stays is stopped, or started anew, while it lives."""
        assert not (self._stays(child) and child.running), f"{child.id} lives, and {child.directive} would end it"

    def _stays(self, child: FakeTask) -> bool:
        return self.config.job.clients_stay and child.id.role in ("chief", "worker")

    def _is_kept(self, child: FakeTask) -> bool:
        """A process that outlives its generation."""
        since = child.directive.since if child.directive else 0
        return child.running and since != 0 and since <= child.generation

    def _listens(self, child: FakeTask) -> bool:
        return child.id.role in self.config.job.listening

    def _train(self, child: FakeTask) -> None:
        try:
            if self.config.job.program:
                self._run_program(child)
            elif child.id.role == "evaluator":
                self._evaluate(child)
            elif child.id.role in ("worker", "chief"):
                self._work(child)
        except GenerationOver:
            if self._stays(child):
                self._ask_servers(child)
            else:
                child.running, child.lease = False, None
        except (ProtocolError, PermissionDenied):
            self._refused(child)

    def _refused(self, child: FakeTask) -> None:
        """The process ends, as one whose attempt is over; of those that stay nobody else is refused."""
        state = self.core.state
        assert not self._stays(child) or state.verdict or state.task(child.id) is None, f"{child.id} is refused"
        child.running, child.lease = False, None

    def _ask_servers(self, child: FakeTask) -> None:
        """Of the AM, and go over into the generation that it names once all of them have an address."""
        try:
            reply = self.tell(m.ServersRequest(task=child.id, known=child.joined))
        except ProtocolError:
            self._refused(child)
            return
        assert isinstance(reply, m.ServersReply)
        assert len(reply.ps) == (self.config.job.roles["ps"].count if reply.state == "run" else 0)
        if reply.state == "run" and reply.generation != child.joined:
            child.go_over(reply.generation, reply.ps)
        elif reply.state == "end":
            child.joined = reply.generation
            self.exit(child, "succeeded", 0)

    def _servers_of(self, child: FakeTask) -> list[FakeTask]:
        """The servers that it knows, or those of them that are there."""
        known = ((address, self.children.get(_handle_in(address))) for address in child.servers)
        return [
            server
            for address, server in known
            if server is not None and server.address == address and server.running and self._is_up(server)
        ]

    def _is_up(self, child: FakeTask) -> bool:
        return self.containers[child.handle].state == "running"

    def _run_program(self, child: FakeTask) -> None:
        """Chief and workers work for some turns, and fail now and then; the others run until they are ended."""
        if not child.running or child.id.role not in ("chief", "worker"):
            return
        if self.random.random() < self.failure_rate:
            # Never the same exception: that would be the program's own fault.
            raised = f"RuntimeError: {''.join(self.random.choices(string.ascii_letters, k=9))}"
            self.fail(child, *self.random.choice((("killed_by_signal", -9, ""), ("user_exception", 1, raised))))
        elif self.random.random() < self.success_rate:
            self.exit(child, "succeeded", 0)

    def fail(self, child: FakeTask, cause: str, code: int, tail: str = "") -> None:
        """A process ends, its Child stays if it may."""
        may_stay = self.config.job.restarts_together or not self._listens(child)
        child.running, child.lease, child.failed = False, None, True
        child.ends += may_stay
        report = m.ExitReport(
            task=child.id, generation=self._told_by(child), code=code, cause=cause, tail=tail, stays=may_stay,
            number=child.ends if may_stay else 0,
        )  # fmt: skip
        reply = self.tell(report)
        assert isinstance(reply, m.ExitReply)
        if not reply.stays:
            self.end_container(child.handle)

    def _evaluate(self, child: FakeTask) -> None:
        final = self.core.state.final_manifest
        if final:
            self.tell(
                m.EvalReport(task=child.id, generation=1, step=9, manifest=final, metrics={"auc": 0.9}, final=True)
            )
            self.exit(child, "succeeded", 0)

    def _work(self, child: FakeTask) -> None:
        if self.random.random() < self.restart_rate:
            child.lease = None  # the process was started anew in place and knows nothing
        if self._stays(child) and not self._is_served(child):
            self._lack_servers(child)
            return
        ready = self.tell(m.ReadyRequest(task=child.id, generation=child.joined))
        assert isinstance(ready, m.ReadyReply)
        is_chief = bool(child.directive and child.directive.is_chief)
        if not ready.ready:
            if is_chief:
                self._prepare(child, ready)
            return
        child.begun = True
        if child.lease is not None:
            self._apply(child, child.lease)
            if is_chief and self.random.random() < 0.5:
                self.checkpoint(child, final=False)
            return
        # It holds no file here: one that is leased to it comes back after its process was started anew in place.
        reply = self.tell(m.SplitRequest(task=child.id, generation=child.joined))
        assert isinstance(reply, m.SplitReply)
        if reply.state == "lease":
            child.lease, child.applied = reply, False
        elif reply.state == "end":
            if is_chief:
                self.checkpoint(child, final=True)
            if self._stays(child) and self.random.random() < 0.3:
                child.running, child.done = False, True
            else:
                self.exit(child, "succeeded", 0)

    def _is_served(self, child: FakeTask) -> bool:
        """Its servers are there, and once it makes steps they hold what belongs to its generation."""
        servers = self._servers_of(child)
        same = not child.begun or all(server.joined == child.joined for server in servers)
        return len(servers) == len(child.servers) and same

    def _lack_servers(self, child: FakeTask) -> None:
        """What it has applied it may still acknowledge; then it asks where the servers are."""
        if child.applied and child.lease is not None:
            self._acknowledge(child, child.lease)
            child.lease = None
        self._ask_servers(child)

    def _prepare(self, child: FakeTask, ready: m.ReadyReply) -> None:
        servers = {each.id.index: each.process for each in self.live("ps") if each.running}
        if len(servers) < self.config.job.roles["ps"].count:
            return  # it cannot connect
        taken = self.model.newest_complete(ready.restore)
        self.model.restore(taken, servers, ready.kept)
        for server in self.live("ps"):
            server.joined = child.joined
        self.tell(
            m.ReadyReport(
                task=child.id, generation=child.joined, restored=taken,
                positions=self.model.positions() if ready.kept else (),
                passed_over=() if taken == ready.restore else (f"{ready.restore} is damaged",),
            )
        )  # fmt: skip

    def _apply(self, child: FakeTask, lease: m.SplitReply) -> None:
        self.model.apply(lease.split, lease.epoch, lease.resume)
        child.applied = True
        if self.random.random() < 0.8:
            self._acknowledge(child, lease)
            child.lease = None
        else:  # the next turn acknowledges what is applied
            child.lease = replace(lease, resume=True)

    def _acknowledge(self, child: FakeTask, lease: m.SplitReply) -> None:
        count, xor = read(lease.split, lease.epoch)
        self.tell(
            m.SplitAck(
                task=child.id, generation=child.joined, split=lease.split, epoch=lease.epoch, count=count, xor=xor,
                bad=self.bad.get(lease.split, 0), first_bad=f"file {lease.split}: record at offset 7",
            )
        )  # fmt: skip

    def checkpoint(self, child: FakeTask, final: bool) -> None:
        """The chief saves what is applied, with the positions that belong to it."""
        directory = f"try-{len(self.model.saved)}"
        self.tell(m.SavingReport(task=child.id, generation=child.joined, directory=directory, final=final))
        manifest = self.model.save()
        self.tell(
            m.CheckpointReport(
                task=child.id, generation=child.joined, step=1, manifest=manifest, positions=self.model.positions(),
                final=final,
            )
        )  # fmt: skip

    def _told_by(self, child: FakeTask) -> int:
        """The generation that its Child names for it."""
        return child.directive.generation if self._stays(child) and child.directive else child.generation

    def exit(self, child: FakeTask, cause: str, code: int, tail: str = "") -> None:
        """The trainer ends; its Child reports and leaves."""
        self.tell(
            m.ExitReport(
                task=child.id, generation=self._told_by(child), code=code, cause=cause, tail=tail,
                progress=self.progress(child),
            )
        )  # fmt: skip
        self.end_container(child.handle)

    def run(self, turns: int = 400, each: Callable[[FakeCluster, int], None] | None = None) -> str:
        """Until the job is finished; returns its state. Fails the test when it does not end."""
        for turn in range(turns):
            if self.finished is not None:
                return self.finished.state
            if each is not None:
                each(self, turn)
            self.turn()
        pytest.fail(
            f"the job did not end in {turns} turns: {[(t.id, t.stage) for t in self.core.state.tasks.values()]}"
        )

    def events(self, kind: type) -> list[ev.AnyEvent]:
        """All events of a kind so far."""
        return [event for event, _ in self.log if isinstance(event, kind)]


def _address(handle: str, generation: int) -> str:
    """Where a server of a container listens in a generation."""
    return f"h:{handle}.{generation}"


def _handle_in(address: str) -> str:
    return address.removeprefix("h:").rpartition(".")[0]
