"""The loop of a Child: tell the AM how things are, hear what it wants, do that."""

import logging
import threading
import time

from afo.errors import AfoError, ClusterUnreachable, StorageError
from afo.rpc import messages as m
from afo.rpc.master import Master
from afo_child import decision as d
from afo_child.orders import Orders
from afo_child.output import Output
from afo_child.ports import PortReservation
from afo_child.termination import EXIT_TERMINATED
from afo_child.trainer import CannotStart, Trainer
from afo_child.usage import UsageMeter

#: YARN kills a container 250 ms after it asked it to end, so there is no time for a process that clings to life.
_TERMINATION_STOP_S = 0.1
_LOG = logging.getLogger(__name__)


class Agent:
    """One Child. All but `terminate` belongs to the main thread; `wake` is set by what cannot wait for a heartbeat."""

    def __init__(
        self, task: m.TaskId, host: str, master: Master, trainer: Trainer, orders: Orders, output: Output,
        wake: threading.Event, *, heartbeat_s: float, stop_s: float, orphan_s: float,
    ) -> None:  # fmt: skip
        self._task, self._host, self._master, self._trainer, self._output = task, host, master, trainer, output
        self._orders, self._wake, self._stop_s, self._orphan_s = orders, wake, stop_s, orphan_s
        self._directive = m.Directive(action="wait", generation=-1, heartbeat_s=heartbeat_s)
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
        if self._orders.kill_wanted:
            return self._kill(self._orders.kill_wanted)
        if self._trainer.over:
            self._orders.stop()
            self._trainer.note_end()
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
            is_ps=self._task.role == "ps",
            running=trainer.generation if running else None,
            ended=trainer.generation if trainer.code is not None else None,
            code=trainer.code or 0,
            reserved=self._port.generation if self._port else None,
            address=self._port.address if self._port else "",
            restarts=trainer.restarts,
            backing_off=trainer.backing_off,
        )

    def _apply(self, action: d.Action) -> int | None:
        """Returns an exit code when the Child is to leave."""
        match action:
            case d.Stop():
                self._stop_process(self._stop_s)
            case d.Reserve(generation):
                self._release()
                self._port = PortReservation(self._host, generation)
            case d.BackOff():
                self._trainer.back_off()
            case d.Start():
                return self._start()
            case d.Report(cause):
                self._report(self._trainer.code or 0, cause or self._trainer.cause(), self._output.last_lines())
            case d.Leave(code):
                return code
        return None

    def _stop_process(self, grace_s: float) -> None:
        self._orders.stop()
        self._trainer.stop(grace_s)

    def _kill(self, order: int) -> int:
        """Somebody wants the process ended; this Child leaves as after any other end, and the task comes back."""
        self._stop_process(self._stop_s)
        self._orders.finish(order, output="ended; the task comes back")
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
            self._orders.delivered(result.order)

    def _start(self) -> int | None:
        try:
            self._trainer.start(self._directive)
        except CannotStart as error:
            _LOG.error("%s", error)
            self._report(error.exit_code, error.cause, str(error))
            return error.exit_code
        if self._trainer.pid is not None:
            self._meter.watch(self._trainer.pid)
        return None

    def _heartbeat(self) -> None:
        self._deliver()
        progress = self._trainer.progress
        if progress is not None and progress.phase == "serving" and self._port is not None:
            self._port.release()
        request = m.HeartbeatRequest(
            task=self._task,
            generation=self._directive.generation,
            address=self._port.address if self._port else "",
            process_alive=self._trainer.pid is not None,
            progress=progress,
            usage=self._meter.sample(),
            log_bytes=self._output.total,
            log_dropped=self._output.dropped,
            orders=self._orders.open,
        )
        try:
            self._hear(self._master.heartbeat(request, patience_s=0.0))
        except (ClusterUnreachable, StorageError) as error:
            silence = time.monotonic() - self._last_contact
            if silence > self._orphan_s:
                raise ClusterUnreachable(f"orphaned: no answer of the AM for {silence:.0f} s; {error}") from error

    def _hear(self, received: m.Directive) -> None:
        self._last_contact = time.monotonic()
        newest = d.newest(self._directive, received)
        if (newest.action, newest.generation) != (self._directive.action, self._directive.generation):
            _LOG.info("the AM wants: %s generation %d %s", newest.action, newest.generation, newest.reason)
        self._directive = newest
        self._orders.take(received.orders)

    def _report(self, code: int, cause: str, tail: str) -> None:
        """Tell the AM about the end. It may be gone by now, which must not keep this Child."""
        _LOG.info("end of the task: %s (%d)", cause, code)
        self._deliver()  # the AM takes nothing more of an attempt that has ended
        report = m.ExitReport(
            task=self._task, generation=self._directive.generation, code=code, cause=cause, tail=tail,
            progress=self._trainer.progress, usage=self._meter.sample(),
        )  # fmt: skip
        try:
            self._master.report_exit(report)
        except AfoError as error:
            _LOG.error("the end could not be reported: %s", error)

    def _release(self) -> None:
        if self._port is not None:
            self._port.release()
            self._port = None
