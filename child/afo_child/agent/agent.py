"""The loop of a Child: tell the AM how things are, hear what it wants, do that."""

import logging
import threading
import time

from afo.errors import AfoError, ClusterUnreachable, Orphaned, StorageError
from afo.hadoop import delegation_tokens
from afo.protocol.child_config import ChildConfig
from afo.rpc import messages as m
from afo.rpc.master import Master
from afo_child.agent import decision as d
from afo_child.agent.termination import EXIT_TERMINATED
from afo_child.container.usage import UsageMeter
from afo_child.model_dir.model_dir import ModelDir
from afo_child.network import ports
from afo_child.network.ports import PortReservation
from afo_child.network.tunnel import INNER, Tunnel
from afo_child.orders.order_runner import Orders
from afo_child.process.launch import Way
from afo_child.process.output import Output
from afo_child.process.task_runner import CannotStart, TaskRunner

#: For the last copy of a program's model directory.
SAVE_S = 15.0
#: YARN kills a container 250 ms after it asked it to end, so there is no time for a process that clings to life.
_TERMINATION_STOP_S = 0.1
_LOG = logging.getLogger(__name__)


class Agent:
    """One Child. All but `terminate` belongs to the main thread; `wake` is set by what cannot wait for a heartbeat."""

    def __init__(
        self, config: ChildConfig, task: m.TaskId, host: str, master: Master, trainer: TaskRunner, orders: Orders,
        model_dir: ModelDir, output: Output, wake: threading.Event, tunnel: Tunnel | None,
    ) -> None:  # fmt: skip
        self._job, self._stop_s, self._orphan_s = config.job, config.stop_s, float(config.job.timeouts.orphan)
        self._task, self._host, self._master, self._trainer, self._output = task, host, master, trainer, output
        self._orders, self._model_dir, self._wake, self._tunnel = orders, model_dir, wake, tunnel
        self._directive = m.Directive(action="wait", generation=-1, heartbeat_s=config.heartbeat_s)
        #: A process that failed may be followed by another one here: not where it would need another address.
        self._may_stay = self._job.restarts_together or task.role not in self._job.listening
        #: Of the process that ended last: the AM lets this Child go on. How many ended like that.
        self._stays, self._ends = False, 0
        self._filled: int | None = None
        self._reported = False
        #: Number of the delegation tokens that this container has: 0 for YARN's.
        self._tokens = 0
        self._meter = UsageMeter()
        self._port: PortReservation | None = None
        self._terminating = threading.Event()
        self._last_contact = time.monotonic()

    def run(self, registration: m.RegisterRequest) -> int:
        """Until the job, the task or the AM is over; returns the Child's exit code. Raises `AfoError`.

        Whatever the reason, no process of the task is left when it returns.
        """
        try:
            self._hear(self._master.register(registration))
            while (code := self._obey()) is None:
                self._heartbeat()
            return code
        finally:
            self._stop_process(self._stop_s)
            self._release()

    def terminate(self) -> None:
        """The container is told to end: take the process along and have `run` return. From any thread."""
        self._terminating.set()
        self._trainer.terminate()
        self._wake.set()

    def _obey(self) -> int | None:
        """Bring about what the AM wants and wait for something new; returns an exit code when that is to leave."""
        if self._terminating.is_set():
            self._stop_process(_TERMINATION_STOP_S)
            self._report(-15, "container_stopped", self._output.last_lines())
            return EXIT_TERMINATED
        if not self._trainer.has_work_dir:
            self._stop_process(self._stop_s)
            self._report(-15, "work_dir_lost", self._output.last_lines())
            return EXIT_TERMINATED
        if self._orders.kill_wanted:
            return self._kill(self._orders.kill_wanted)
        if self._trainer.over:
            self._orders.stop()
            self._trainer.note_end()
            self._model_dir.note_end()
        actions = d.decide(self._directive, self._situation())
        for action in actions:
            code = self._apply(action)
            if code is not None:
                return code
        if not actions:  # else the AM hears the news at once
            pause = self._trainer.pause_s or self._directive.heartbeat_s
            self._wake.wait(min(pause, self._directive.heartbeat_s))
        self._wake.clear()
        return None

    def _situation(self) -> d.Situation:
        trainer, running = self._trainer, self._trainer.pid is not None
        return d.Situation(
            listens=self._task.role in self._job.listening,
            program=bool(self._job.program),
            stays=self._stays,
            called=self._stays and self._directive.starts >= self._ends,
            running=trainer.generation if running else None,
            ended=trainer.generation if trainer.code is not None else None,
            code=trainer.code or 0,
            reserved=self._port.generation if self._port else None,
            address=self._port.address if self._port else "",
            restarts=trainer.restarts,
            backing_off=trainer.backing_off,
            filled=self._filled,
            copying=self._model_dir.busy,
            reported=self._reported,
        )

    def _apply(self, action: d.Action) -> int | None:
        """Returns an exit code when the Child is to leave."""
        match action:
            case d.Stop():
                self._stop_process(self._stop_s)
            case d.Reserve(generation):
                self._release()
                self._port = PortReservation(self._host, generation)
            case d.Fill(generation):
                self._model_dir.fill()
                self._filled = generation
            case d.BackOff():
                self._trainer.back_off()
            case d.Start():
                return self._start()
            case d.Report(cause, leaves):
                self._report_end(cause, leaves=leaves)
            case d.Leave(code):
                return code
        return None

    def _stop_process(self, grace_s: float) -> None:
        self._orders.stop()
        self._trainer.stop(grace_s)
        self._model_dir.note_end()

    def _kill(self, order: int) -> int:
        """Somebody wants the process ended; this Child leaves as after any other end, and the task comes back."""
        self._stop_process(self._stop_s)
        self._orders.finish(order, output="ended; the task comes back")
        self._model_dir.finish(SAVE_S)
        self._report(-15, "killed_by_user", self._output.last_lines())
        return EXIT_TERMINATED

    def _deliver(self) -> None:
        """Bring results to the AM; what does not arrive now goes with a later heartbeat."""
        for result in self._orders.results:
            try:
                self._master.report_order(result)
            except AfoError as error:
                _LOG.info("the result of order %d could not be delivered: %s", result.order, error)
                return
            self._orders.drop_result(result.order)

    def _start(self) -> int | None:
        try:
            if self._model_dir.failure:
                text = f"the model directory of {self._task} could not be filled: {self._model_dir.failure}"
                raise CannotStart("storage_unreachable", text)
            self._trainer.start(self._directive, self._way())
            self._model_dir.note_start()
            self._reported = self._stays = False
        except CannotStart as error:
            _LOG.error("%s", error)
            self._report(error.exit_code, error.cause, str(error))
            return error.exit_code
        if self._trainer.pid is not None:
            self._meter.watch(self._trainer.pid)
        return None

    def _way(self) -> Way:
        """How its TensorFlow and that of other tasks reach each other."""
        address = self._port.address if self._port else ""
        if self._tunnel is None or self._task.role == "evaluator":
            return Way(address)
        entrance = self._tunnel.enter(int(address.rpartition(":")[2] or 0))
        return Way(entrance, listen=f"{INNER}:{entrance.rpartition(':')[2]}", proxy=self._tunnel.proxy)

    def _heartbeat(self) -> None:
        self._deliver()
        progress = self._trainer.progress
        if progress is not None and progress.phase == "serving" and self._port is not None:
            self._port.release()
        generation, usage = self._directive.generation, self._meter.sample()
        request = m.HeartbeatRequest(
            task=self._task,
            generation=generation,
            address=self._port.address if self._port and self._port.generation == generation else "",
            process_alive=self._trainer.pid is not None,
            halted=ports.describe_stopped(self._trainer.pid) if self._trainer.pid is not None else "",
            progress=progress,
            usage=usage,
            work=self._meter.work,
            log_bytes=self._output.total,
            log_dropped=self._output.dropped,
            orders=self._orders.open,
        )
        try:
            self._hear(self._master.heartbeat(request, patience_s=0.0))
        except (ClusterUnreachable, StorageError) as error:
            silence = time.monotonic() - self._last_contact
            if silence > self._orphan_s:
                raise Orphaned(f"orphaned: no answer of the AM for {silence:.0f} s; {error}") from error

    def _hear(self, received: m.Directive) -> None:
        self._last_contact = time.monotonic()
        self._model_dir.note_contact()
        newest = d.newest(self._directive, received)
        if (newest.action, newest.generation) != (self._directive.action, self._directive.generation):
            _LOG.info("the AM wants: %s generation %d %s", newest.action, newest.generation, newest.reason)
        self._directive = newest
        self._orders.take(received.orders)
        if received.tokens != self._tokens:
            self._take_tokens()

    def _take_tokens(self) -> None:
        """What does not work now is tried with the next heartbeat; the tokens that are there are good for some time."""
        try:
            reply = self._master.tokens(m.TokensRequest(task=self._task))
            delegation_tokens.replace(reply.content)
        except AfoError as error:
            _LOG.warning("no new delegation tokens: %s", error)
            return
        self._tokens = reply.number
        _LOG.info("delegation tokens %d", reply.number)

    def _report_end(self, cause: str, *, leaves: bool) -> None:
        """The process ended by itself."""
        code, tail = self._trainer.code or 0, self._output.last_lines()
        if code == 0 and self._model_dir.failure:
            cause, tail = "storage_unreachable", self._model_dir.failure
        may_stay = self._may_stay and not leaves
        self._ends += may_stay
        self._stays = self._report(
            code, cause or self._trainer.cause, tail, stays=may_stay, since=self._trainer.ended_at
        )
        self._reported = True

    def _report(self, code: int, cause: str, tail: str, *, stays: bool = False, since: float | None = None) -> bool:
        """Tell the AM about the end, which was at `since` or is now; True if this Child is to stay.

        An AM that is gone must not keep the Child.
        """
        _LOG.info("end of the task: %s (%d)", cause, code)
        self._deliver()  # the AM takes nothing more of an attempt that has ended
        report = m.ExitReport(
            task=self._task, generation=self._directive.generation, code=code, cause=cause, tail=tail,
            progress=self._trainer.progress, usage=self._meter.sample(), stays=stays, number=self._ends if stays else 0,
            idle_s=0.0 if since is None else time.monotonic() - since,
        )  # fmt: skip
        try:
            return self._master.report_exit(report).stays
        except AfoError as error:
            _LOG.error("the end could not be reported: %s", error)
            return False

    def _release(self) -> None:
        if self._port is not None:
            self._port.release()
            self._port = None
