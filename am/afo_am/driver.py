"""The AM's engine: carries stimuli to the core, and its events, commands and replies out.

One thread decides (the loop), one touches the runtime (the hands), gRPC's threads only wait for replies. Stimuli are
taken in batches so that the journal is synchronised once for all of them.
"""

import contextlib
import logging
import queue
import threading
import time
from concurrent.futures import Future

from afo import events as ev
from afo import jsonfile, storage
from afo.errors import AfoError, ClusterUnreachable
from afo.paths import JobPaths
from afo.rpc import messages as m
from afo_am import commands as c
from afo_am.core import Core, Outcome
from afo_am.journal import Journal
from afo_am.runtime.base import Runtime
from afo_am.status import status_of

log = logging.getLogger("afo.am")

_BATCH = 512
#: Tries of a command against an unreachable cluster, a second more apart each time.
_TRIES = 8

_Item = tuple[object, "Future[m.Message] | None"]


class Driver:
    """Runs a core until its job is finished."""

    def __init__(self, core: Core, journal: Journal, runtime: Runtime, paths: JobPaths, poll_s: float = 1.0) -> None:
        self._core = core
        self._journal = journal
        self._runtime = runtime
        self._paths = paths
        self._poll_s = poll_s
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._commands: queue.SimpleQueue[c.Command] = queue.SimpleQueue()
        self._done = threading.Event()
        self._failure: BaseException | None = None

    # -- from other threads ------------------------------------------------------------------------------------------

    def ask(self, stimulus: m.Message) -> m.Message:
        """Hand a message to the core and wait for its reply. Raises what the core answers with."""
        future: Future[m.Message] = Future()
        self._inbox.put((stimulus, future))
        if self._done.is_set():
            self._refuse_the_rest()
        try:
            return future.result(timeout=30)
        except TimeoutError as error:
            raise ClusterUnreachable("the Application Master is too busy to answer") from error

    # -- the loop ----------------------------------------------------------------------------------------------------

    def run(self, started: ev.AmStarted) -> None:
        """Until the job is finished and the runtime was told. Raises what the hands or the journal raised."""
        self._carry_out([(self._core.start(started, self._paths.job_id, now=time.monotonic(), wall=time.time()), None)])
        hands = threading.Thread(target=self._hands, name="hands")
        hands.start()
        try:
            while not self._done.is_set():
                self._turn()
        finally:
            self._done.set()
            hands.join()
            self._refuse_the_rest()
        if self._failure is not None:
            raise self._failure

    def _refuse_the_rest(self) -> None:
        # A caller that is told so at once looks for the next incarnation; one that is not waits for its deadline.
        with contextlib.suppress(queue.Empty):
            while True:
                _, future = self._inbox.get_nowait()
                if future is not None:
                    future.set_exception(ClusterUnreachable("this Application Master has stopped"))

    def _turn(self) -> None:
        items = self._take()
        try:
            self._decide(items)
        except BaseException:
            for _, future in items:
                if future is not None and not future.done():
                    future.set_exception(ClusterUnreachable("this Application Master failed"))
            raise

    def _decide(self, items: list[_Item]) -> None:
        outcomes: list[tuple[Outcome, Future[m.Message] | None]] = []
        for stimulus, future in items:
            now, wall = time.monotonic(), time.time()
            if isinstance(stimulus, m.StatusRequest):
                outcomes.append((Outcome(reply=status_of(self._core, self._paths.job_id, now)), future))
            else:
                outcomes.append((self._core.handle(stimulus, now=now, wall=wall), future))
        self._carry_out(outcomes)

    def _take(self) -> list[_Item]:
        items: list[_Item] = []
        try:
            items.append(self._inbox.get(timeout=0.5))
            while len(items) < _BATCH:
                items.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return items

    def _carry_out(self, outcomes: list[tuple[Outcome, "Future[m.Message] | None"]]) -> None:
        wall = time.time()
        self._journal.write((event, wall) for outcome, _ in outcomes for event in outcome.events)
        for outcome, future in outcomes:
            for event in outcome.events:
                log.info("%s", event)
            for command in outcome.commands:
                self._commands.put(command)
            if future is not None and outcome.error is not None:
                future.set_exception(outcome.error)
            elif future is not None:
                future.set_result(outcome.reply or m.Empty())

    # -- the hands ---------------------------------------------------------------------------------------------------

    def _hands(self) -> None:
        try:
            next_poll = time.monotonic()
            while not self._done.is_set():
                self._obey_until(next_poll)
                if not self._done.is_set() and time.monotonic() >= next_poll:
                    self._look()
                    next_poll = time.monotonic() + self._poll_s
        except BaseException as error:
            self._failure = error
            self._done.set()

    def _obey_until(self, deadline: float) -> None:
        try:
            command = self._commands.get(timeout=max(0.0, deadline - time.monotonic()) + 0.001)
            while not self._done.is_set():
                self._obey(command)
                command = self._commands.get_nowait()
        except queue.Empty:
            pass

    def _look(self) -> None:
        try:
            self._inbox.put((c.ContainersSeen(tuple(self._runtime.list_containers())), None))
        except ClusterUnreachable as error:
            log.warning("the cluster does not answer, looking again in %g s: %s", self._poll_s, error)
        self._inbox.put((c.Tick(), None))

    def _obey(self, command: c.Command) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                self._do(command)
                return
            except ClusterUnreachable as error:
                log.warning("%s: try %d of %d failed: %s", command, attempt, _TRIES, error)
                failure: AfoError = error
                self._done.wait(attempt)
            except AfoError as error:
                failure = error
                break
        if isinstance(command, c.RequestContainer):
            self._inbox.put((c.CommandFailed(command.task, f"no container for {command.task}: {failure}"), None))
        elif isinstance(command, c.FinishJob):
            raise failure
        else:
            log.error("%s: %s", command, failure)

    def _do(self, command: c.Command) -> None:
        match command:
            case c.RequestContainer(task, more_memory):
                self._inbox.put((c.ContainerPlaced(task, self._runtime.request(task, {}, more_memory=more_memory)), None))
            case c.KillContainer(handle):
                self._runtime.kill(handle)
            case c.ShowProgress(fraction):
                self._runtime.progress(fraction)
            case c.FinishJob(state, diagnostics):
                self._write_verdict()
                self._runtime.finish(state, diagnostics)
                self._done.set()

    def _write_verdict(self) -> None:
        finished = self._core.finished_event
        if finished is not None and not storage.exists(self._paths.verdict):
            storage.write_bytes(self._paths.verdict, jsonfile.encode(finished))
