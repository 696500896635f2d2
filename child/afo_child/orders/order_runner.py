"""Runner of the orders to this task: each once, bounded, and never longer than the task's process."""

import functools
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import convert
from msgspec.structs import replace

from afo.errors import AfoError
from afo.process.bounded_command import LIMIT_BYTES, LIMIT_S, BoundedCommand, Ran
from afo.protocol.profile_request import Wanted
from afo.rpc import messages as m
from afo_child.network import ports
from afo_child.orders import profiles, stacks
from afo_child.process.output import Output
from afo_child.process.task_runner import TaskRunner

#: How long a parameter server may take for its first byte to somebody who connects. Seconds.
_ANSWER_S = 10.0
#: What makes the chief save; `afo.train.chief` has the handler.
CHECKPOINT_SIGNAL = signal.SIGUSR1
_LOG = logging.getLogger(__name__)


class Orders:
    """Belongs to the main thread. `wake` is called from another thread when a result is there.

    The main thread delivers the results, and carries out `kill` by itself (see `kill_wanted`).
    """

    def __init__(
        self, task: m.TaskId, trainer: TaskRunner, output: Output, work_dir: Path, summary_url: str,
        wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._task, self._trainer, self._output, self._work_dir, self._wake = task, trainer, output, work_dir, wake
        self._summary_url = summary_url
        self._stopping = threading.Event()
        #: Held while a profile is taken: a process takes one at a time.
        self._profiling = threading.Lock()
        self._results: dict[int, m.OrderResult | None] = {}
        self._running: dict[int, tuple[BoundedCommand, threading.Thread]] = {}
        #: Highest number taken so far: the AM repeats what it is not sure we have.
        self._last = 0
        #: Number of the order to end the process; 0 where there is none.
        self.kill_wanted = 0

    @property
    def open(self) -> tuple[int, ...]:
        """Orders taken whose results are not delivered."""
        return tuple(self._results)

    @property
    def results(self) -> list[m.OrderResult]:
        """Results to deliver."""
        return [result for result in list(self._results.values()) if result is not None]

    def take(self, orders: tuple[m.Order, ...]) -> None:
        """Begin with those that are new."""
        for order in orders:
            if order.order > self._last:
                self._last = order.order
                self._results[order.order] = None
                _LOG.info("order %d: %s", order.order, order.kind)
                self._begin(order)

    def drop_result(self, order: int) -> None:
        """The AM has its result."""
        self._results.pop(order, None)

    def finish(self, order: int, *, output: str = "", failed: bool = False, code: int | None = None) -> None:
        """Note a result."""
        self._keep_result(m.OrderResult(task=self._task, order=order, output=output, failed=failed, code=code))

    def stop(self) -> None:
        """End what runs; the results say so."""
        self._stopping.set()
        for command, thread in self._running.values():
            if thread.is_alive():
                command.kill()
            thread.join()
        self._running.clear()
        self._stopping.clear()  # the task may start again in place

    def _begin(self, order: m.Order) -> None:
        self._running = {number: running for number, running in self._running.items() if running[1].is_alive()}
        pid = self._trainer.pid
        if pid is None:
            self.finish(order.order, output=f"no process of {self._task} runs at present", failed=True)
        elif order.kind == "kill":
            self.kill_wanted = order.order
        elif order.kind == "checkpoint":
            self._signal_chief(order.order, pid)
        elif order.kind == "stacks":
            self._run(order, stacks.reader_command(pid), dict(os.environ), functools.partial(self._stacks, pid))
        elif order.kind == "profile":
            self._run(order, stacks.reader_command(pid), dict(os.environ), functools.partial(self._profile, pid, order))
        else:
            self._run(order, list(order.argv), self._trainer.environment, self._make_result)

    def _run(
        self, order: m.Order, argv: list[str], environment: dict[str, str],
        result: Callable[[m.OrderResult, Ran], m.OrderResult],
    ) -> None:  # fmt: skip
        try:
            command = BoundedCommand(argv, environment, self._work_dir)
        except (OSError, ValueError) as error:
            self.finish(order.order, output=f"cannot start {argv[0]}: {error}", failed=True)
            return
        blank = m.OrderResult(task=self._task, order=order.order)
        thread = threading.Thread(
            target=lambda: self._keep_result(result(blank, command.wait())), name=f"order-{order.order}", daemon=True
        )
        self._running[order.order] = (command, thread)
        thread.start()

    def _make_result(self, blank: m.OrderResult, ran: Ran) -> m.OrderResult:
        late = f"\n[afo: killed, as it took longer than {LIMIT_S:g} s]\n" if ran.late else ""
        return replace(blank, code=ran.code, output=ran.output + late, truncated=ran.truncated, failed=ran.late)

    def _stacks(self, pid: int, blank: m.OrderResult, ran: Ran) -> m.OrderResult:
        if ran.code == -signal.SIGKILL and not ran.late:
            return replace(blank, failed=True, output="the process ended while its stacks were read")
        try:
            text = stacks.describe(pid, ran, self._work_dir)
        except OSError as error:
            return replace(blank, failed=True, output=f"the process {pid} cannot be looked at: {error}")
        self._output.note(f"stacks of process {pid}\n{text}\nend of stacks")
        # A worker is asked nothing by others: that its port is silent would hold nobody up.
        silence = ports.unresponsive(pid, _ANSWER_S) if self._task.role == "ps" else ports.describe_stopped(pid)
        more = ran.truncated or len(text) > LIMIT_BYTES
        place = stacks.place(text, pid)
        return replace(blank, output=text[:LIMIT_BYTES], truncated=more, place=place, unresponsive=silence)

    def _profile(self, pid: int, order: m.Order, blank: m.OrderResult, ran: Ran) -> m.OrderResult:
        """Its stacks were read; the rest is the process's own work."""
        place = f"{self._summary_url}/profile-{self._task.role}_{self._task.index}-{order.order}"
        try:
            wanted = convert({"number": order.order, "seconds": float(order.argv[0])}, Wanted)
            text = stacks.describe(pid, ran, self._work_dir)
            with self._profiling:
                return replace(blank, output=profiles.take(self._work_dir, wanted, place, text, self._stopping))
        except (AfoError, OSError, ValueError) as error:
            return replace(blank, failed=True, output=str(error))

    def _signal_chief(self, order: int, pid: int) -> None:
        if stacks.catches(pid, CHECKPOINT_SIGNAL):
            os.kill(pid, CHECKPOINT_SIGNAL)
            self.finish(order, output="the chief saves at its next step")
        else:
            self.finish(order, output="the process does not save on request, at least not yet", failed=True)

    def _keep_result(self, result: m.OrderResult) -> None:
        self._results[result.order] = result
        self._wake()
