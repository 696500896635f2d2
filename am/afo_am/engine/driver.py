"""The AM's engine: stimuli go to the core; its events, commands and replies come out.

Whoever brings a stimulus lets the core decide, under one lock. What was decided goes through the writer, which makes
many decisions durable with one synchronisation before it sends their commands and replies. One thread, the hands,
touches the runtime. A reply that rests on nothing undurable (nearly every heartbeat) is given at once.
"""

import contextlib
import logging
import queue
import threading
import time
from concurrent.futures import Future

from afo import storage
from afo.errors import AfoError, ClusterUnreachable
from afo.events import types as ev
from afo.formats import json_file
from afo.job.paths import JobPaths
from afo.process.bounded_command import Ran
from afo.protocol.child_config import AM
from afo.rpc import messages as m
from afo.rpc.client import AmAddress
from afo_am.core.core import Core
from afo_am.engine.end_hook import run_end_hook
from afo_am.engine.journal import Journal
from afo_am.engine.leftovers import remove_unfinished_checkpoint
from afo_am.engine.status import status_of
from afo_am.runtime.base import Runtime
from afo_am.runtime.master_log import ask_for_copy
from afo_am.state import commands as c
from afo_am.state.context import Outcome

log = logging.getLogger("afo.am")

_BATCH = 512
#: Tries of a command against an unreachable cluster, a second more apart each time.
_TRIES = 8
#: How long a reply may wait for the journal.
_PATIENCE_S = 30.0

#: Numbers of all tasks, once a minute, and names of all files would fill the AM's log without telling anybody anything.
_LONG = (ev.TasksUsed, ev.SplitsAdded)

_Item = tuple[Outcome, "Future[m.Message]"]


class Driver:
    """Runs a core until its job is finished."""

    def __init__(self, core: Core, journal: Journal, runtime: Runtime, paths: JobPaths, poll_s: float = 1.0) -> None:
        self._core = core
        self._journal = journal
        self._runtime = runtime
        self._paths = paths
        self._poll_s = poll_s
        #: Of containers; see `run`.
        self._environment: dict[str, str] = {}
        #: Held while the core decides and while its outcome is put into the outbox, so that the order is the same.
        self._lock = threading.Lock()
        #: Outcomes put into the outbox and not yet durable.
        self._undurable = 0
        self._hook: Ran | None = None
        self._surveyor: threading.Thread | None = None
        self._outbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._commands: queue.SimpleQueue[c.Command] = queue.SimpleQueue()
        self._done = threading.Event()
        self._failure: BaseException | None = None

    # -- stimuli -----------------------------------------------------------------------------------------------------

    def ask(self, message: m.Message) -> m.Message:
        """Hand a message to the core and wait for its reply. Raises what the core answers with."""
        if isinstance(message, m.StatusRequest):
            return self.status()
        try:
            return self._tell(message).result(timeout=_PATIENCE_S)
        except TimeoutError as error:
            raise ClusterUnreachable("the journal of the Application Master is stuck") from error

    def status(self) -> m.StatusReply:
        """The job now."""
        with self._lock:
            return status_of(self._core, self._paths.job_id, time.monotonic())

    def _tell(self, stimulus: object) -> "Future[m.Message]":
        """Let the core decide; the future is done when everything it decided is durable."""
        future: Future[m.Message] = Future()
        try:
            with self._lock:
                outcome = self._core.handle(stimulus, now=time.monotonic(), wall=time.time())
                waits = bool(outcome.events) or self._undurable > 0
                if waits:
                    self._undurable += 1
                    self._outbox.put((outcome, future))
        except BaseException as error:  # a mistake of the core: no further decision may follow from its state
            self._fail(error)
            raise
        if self._done.is_set():
            self._refuse_the_rest()
        elif not waits:
            self._release(outcome, future)
        return future

    # -- the writer --------------------------------------------------------------------------------------------------

    def run(self, started: ev.AmStarted) -> None:
        """Until the job is finished and the runtime was told. Raises what the hands or the journal raised."""
        self._environment = {AM: AmAddress(started.address, started.incarnation).text()}
        with self._lock:
            outcome = self._core.start(started, self._paths.job_id, now=time.monotonic(), wall=time.time())
            self._undurable += 1
            self._outbox.put((outcome, Future()))
        hands = threading.Thread(target=self._hands, name="hands")
        hands.start()
        try:
            while not self._done.is_set():
                self._write(self._take())
        except BaseException as error:
            self._fail(error)
        finally:
            self._done.set()
            hands.join()
            self._refuse_the_rest()
        if self._failure is not None:
            raise self._failure

    def _take(self) -> list[_Item]:
        items: list[_Item] = []
        with contextlib.suppress(queue.Empty):
            items.append(self._outbox.get(timeout=0.5))
            while len(items) < _BATCH:
                items.append(self._outbox.get_nowait())
        return items

    def _write(self, items: list[_Item]) -> None:
        wall = time.time()
        try:
            self._journal.write((event, wall) for outcome, _ in items for event in outcome.events)
        except BaseException:
            for _, future in items:
                future.set_exception(ClusterUnreachable("the journal of this Application Master cannot be written"))
            raise
        with self._lock:
            self._undurable -= len(items)
        for outcome, future in items:
            self._release(outcome, future)

    def _release(self, outcome: Outcome, future: "Future[m.Message]") -> None:
        for event in outcome.events:
            log.log(logging.DEBUG if isinstance(event, _LONG) else logging.INFO, "%s", event)
        for command in outcome.commands:
            self._commands.put(command)
        if outcome.error is not None:
            future.set_exception(outcome.error)
        else:
            future.set_result(outcome.reply or m.Empty())

    def _refuse_the_rest(self) -> None:
        # A caller that is told so at once looks for the next incarnation; one that is not waits for its deadline.
        with contextlib.suppress(queue.Empty):
            while True:
                self._outbox.get_nowait()[1].set_exception(ClusterUnreachable("this Application Master has stopped"))

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._done.set()

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
            self._fail(error)

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
            self._tell(c.ContainersSeen(tuple(self._runtime.list_containers())))
        except ClusterUnreachable as error:
            log.warning("the cluster does not answer, looking again in %g s: %s", self._poll_s, error)
        self._tell(c.Tick())

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
            self._tell(c.CommandFailed(command.task, f"no container for {command.task}: {failure}"))
        elif isinstance(command, c.FinishJob):
            raise failure
        else:
            log.error("%s: %s", command, failure)

    def _do(self, command: c.Command) -> None:
        match command:
            case c.RequestContainer(task, more_memory):
                handle = self._runtime.request(task, self._environment, more_memory=more_memory)
                self._tell(c.ContainerPlaced(task, handle))
            case c.KillContainer(handle):
                self._runtime.kill(handle)
            case c.ShowProgress(fraction):
                self._runtime.progress(fraction)
            case c.LookAtCluster():
                self._start_survey()
            case c.FinishJob(state, diagnostics):
                remove_unfinished_checkpoint(self._core.state, self._paths)
                # Who waits for the verdict reads the log next.
                ask_for_copy()
                self._write_verdict()
                self._run_hook()
                self._runtime.finish(state, diagnostics)
                self._done.set()

    # -- the cluster -------------------------------------------------------------------------------------------------

    def _start_survey(self) -> None:
        """In a thread of its own: a ResourceManager that does not answer may hold it for a minute."""
        if self._surveyor is None or not self._surveyor.is_alive():
            # Nobody waits for it at the end: what it brings is of no use then.
            self._surveyor = threading.Thread(target=self._survey, name="survey", daemon=True)
            self._surveyor.start()

    def _survey(self) -> None:
        try:
            seen = c.ClusterSeen(tuple(self._runtime.nodes()), self._runtime.queue())
        except AfoError as error:
            log.info("no picture of the cluster: %s", error)
            return
        if not self._done.is_set():
            self._tell(seen)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _write_verdict(self) -> None:
        finished = self._core.state.finished
        if finished is not None and not storage.exists(self._paths.verdict):
            storage.write_bytes(self._paths.verdict, json_file.encode(finished))

    def _run_hook(self) -> None:
        job, finished = self._core.state.config.job, self._core.state.finished
        if finished is None or not job.on_end:
            return
        # Told again by a runtime that did not answer, or in a later application attempt, which YARN starts for a job
        # that was not SUCCEEDED: it is run once all the same.
        if self._hook is None and not storage.exists(self._paths.on_end):
            self._hook = run_end_hook(job, finished, self._paths)
        if self._hook is not None:
            storage.write_bytes(self._paths.on_end, json_file.encode(self._hook))
