"""Watch over a job: its verdict, else what its Application Master says, else the runtime and the event log."""

import contextlib
import shutil

from msgspec import structs

from afo import storage
from afo.errors import AfoError, AlreadyExists, ClusterUnreachable, NotFound, PermissionDenied
from afo.events.event_tail import EventTail
from afo.events.job_costs import Costs
from afo.events.types import JobFinished
from afo.formats import decoding, json_file
from afo.job_dir import forced_end
from afo.job_dir.local_job import live_containers
from afo.protocol.am_config import AmConfig
from afo.rpc.client import AmClient, read_address
from afo.rpc.master import Master
from afo.storage.url import LOCAL, parse
from afo_client.jobs.ref import JobRef
from afo_client.jobs.view import FINAL, RUNNING, JobView, TaskView, ViewFold, from_status
from afo_client.runtimes.application import Application, ClientRuntime

#: Free bytes of a disk on which a job can write no event any more.
NO_ROOM_BYTES = 64 << 10
#: Seconds that one question to the AM may take.
CALL_S = 3.0


class JobWatch:
    """Looks at one job again and again; `close` it."""

    def __init__(self, ref: JobRef, runtime: ClientRuntime) -> None:
        self.ref = ref
        self._runtime = runtime
        self._events = EventTail(ref.paths.events)
        self._log = ViewFold(ref.job_id)
        self._config: AmConfig | None = None
        secret = ref.secret
        self._master = Master(AmClient(ref.paths.address, secret, patience_s=0.0, call_s=CALL_S)) if secret else None

    @property
    def master(self) -> Master | None:
        """The job's AM, None for one who does not hold the job's secret."""
        return self._master

    def close(self) -> None:
        """Drop the connection."""
        if self._master is not None:
            self._master.close()

    def kill(self) -> None:
        """End the job by force, its AM unasked."""
        self._runtime.kill(self.ref.job_id)

    def is_gone(self) -> bool:
        """Whether the runtime has ended it, and not only its AM has reached a verdict."""
        try:
            return bool(self._runtime.application(self.ref.job_id).final)
        except NotFound:
            return True

    def close_log(self) -> None:
        """Close the event log for an AM that was killed while it had it open, so that its end can be read."""
        try:
            for segment in storage.list_dir(self.ref.paths.events):
                storage.take_over(segment.url)
        except (NotFound, PermissionDenied):
            pass  # it never began, or it is another user's: HDFS closes it in its own time

    def keep_reason(self, user: str, reason: str) -> bool:
        """Write who ends a job without its AM, and why; False for a job without a directory. Raises StorageError."""
        if not storage.exists(self.ref.paths.dir):
            return False
        storage.write_bytes(self.ref.paths.kill, forced_end.encode(user, reason))
        return True

    def costs(self) -> Costs | None:
        """Core-hours and GB-hours by the runtime's count; None where it has none."""
        try:
            found = self._runtime.application(self.ref.job_id)
        except (NotFound, ClusterUnreachable):
            return None
        counted = Costs(core_hours=found.core_hours, memory_gb_hours=found.memory_gb_hours)
        return counted if counted != Costs() else None

    def keep_verdict(self, verdict: JobFinished) -> bool:
        """Write the verdict of a job that has no AM to write one; one that is there stays. Raises StorageError.

        False for a job without a job file, which nobody shows.
        """
        if not storage.exists(self.ref.paths.job):
            return False
        with contextlib.suppress(AlreadyExists):
            storage.write_bytes(self.ref.paths.verdict, json_file.encode(verdict), overwrite=False)
        return True

    def look(self, *, ask_master: bool = True) -> JobView:
        """The job now; one whose AM is gone for good asks it no more.

        Raises `ClusterUnreachable` or what `afo.storage` raises.
        """
        verdict = self._verdict()
        if verdict is None:
            answer = self._ask_master() if ask_master else None
            if answer is not None:
                return answer
            application = self._runtime.application(self.ref.job_id)
            verdict = self._verdict()  # it may have come between the first look and the last question
            if verdict is None:
                return self._without_master(application)
        return _end_view(
            self._read_log(), state=verdict.state, message=verdict.diagnostics, verdict=verdict,
            metrics=verdict.metrics, step=verdict.step, samples=verdict.samples,
        )  # fmt: skip

    def look_without_runtime(self) -> JobView:
        """As `look`, but where the runtime does not answer, what the event log says. Raises what `look` raises."""
        try:
            return self.look()
        except ClusterUnreachable as error:
            view = self._read_log()
            if not view.name:  # nothing was written yet
                raise
            message = "; ".join(filter(None, (f"{error}; this is what its event log says", view.message)))
            return view if view.ended else structs.replace(view, message=message)

    def glance(self) -> JobView:
        """As `look`, but of an ended job only what two small files say: for lists of many jobs."""
        verdict, config = self._verdict(), self._read_config()
        if verdict is None or config is None:
            return self.look()
        return JobView(
            job_id=self.ref.job_id, name=config.job.name, user=config.user, queue=config.job.queue,
            submitted=config.submitted, state=verdict.state, message=verdict.diagnostics, step=verdict.step,
            samples=verdict.samples, metrics=verdict.metrics, verdict=verdict,
        )  # fmt: skip

    def _verdict(self) -> JobFinished | None:
        try:
            return decoding.read(self.ref.paths.verdict, JobFinished)
        except NotFound:
            return None
        except decoding.Malformed:  # half written, or by another version: the event log has it, too
            logged = self._read_log().verdict
            if logged is None:
                raise
            return logged

    def _ask_master(self) -> JobView | None:
        if self._master is None:
            return None
        try:
            view = from_status(self._master.status())
        except ClusterUnreachable:
            return None
        config = self._read_config()
        return structs.replace(view, user=config.user, queue=config.job.queue) if config else view

    def _read_config(self) -> AmConfig | None:
        if self._config is None:
            try:
                self._config = json_file.fetch(self.ref.paths.job, AmConfig)
            except AfoError:
                return None  # not written yet: user and queue stay blank for a moment
        return self._config

    def _without_master(self, application: Application) -> JobView:
        """No verdict and no AM: it waits to be started, is being restarted, or died without a word."""
        view = self._read_log()
        if application.final and view.verdict:
            return view  # its file is gone, and the event log has it, too
        if application.final:
            state = application.final if application.final in FINAL else "FAILED"
            told = (
                [view.message, self._read_forced_end()]
                if state == "KILLED"
                else [view.message, application.diagnostics]
            )
            message = "; ".join(filter(None, told)) or application.diagnostics
            message = message or "the application ended without a verdict and without diagnostics"
            return _end_view(view, state="FAILED" if state == "SUCCEEDED" else state, message=message)
        message = view.message or self._silence(application) or application.diagnostics
        return structs.replace(view, state=application.state, message=message, tasks=self._tasks_now(view))

    def _tasks_now(self, view: JobView) -> tuple[TaskView, ...]:
        """Tasks of the event log; of a local job those without a container have ended, though no event says so."""
        if self.ref.runtime != "local":
            return view.tasks
        named = {task.container for task in view.tasks if task.container and task.state in RUNNING}
        try:
            gone = named - live_containers(self.ref.paths, named)
        except AfoError:
            return view.tasks
        return tuple(structs.replace(task, state="ended") if task.container in gone else task for task in view.tasks)

    def _read_forced_end(self) -> str:
        """Who had it ended without its AM, and why; '' where nobody did, or nobody could keep it."""
        try:
            with storage.open_input(self.ref.paths.kill) as file:
                return forced_end.words(file.read(forced_end.MOST_BYTES), self.ref.paths.kill)
        except AfoError:
            return ""

    def _read_log(self) -> JobView:
        """The job as its event log has it."""
        self._log.take(self._events.poll())
        view, damage = self._log.view, self._events.damage
        return structs.replace(view, notes=(*view.notes, damage)) if damage else view

    def _silence(self, application: Application) -> str:
        """Why the numbers may be old: its disk is full, or the AM is not reached where it has said that it listens."""
        if self._master is None or application.state != "RUNNING":
            return ""
        if full := self._full_disk():
            return full
        try:
            address = read_address(self.ref.paths.address).address
        except AfoError:
            return ""  # it has not come so far, or the same storage is about to say what is wrong
        return f"no answer from the Application Master at {address}; this is what its event log says"

    def _full_disk(self) -> str:
        """That there is no room for the job's events, without which its AM does nothing; a local job's disk alone."""
        location = parse(self.ref.paths.dir)
        if location.scheme != LOCAL:
            return ""
        try:
            free = shutil.disk_usage(location.path).free
        except OSError:
            return ""
        if free > NO_ROOM_BYTES:
            return ""
        return f"the disk of {location.path} is full, and the Application Master waits for room; make some"


def _end_view(view: JobView, **fields: object) -> JobView:
    """The view of a job that has ended, and with it the tasks whose ends nobody was left to write down."""
    tasks = [structs.replace(each, state="ended") if each.state in RUNNING else each for each in view.tasks]
    return structs.replace(view, tasks=tuple(tasks), **fields)
