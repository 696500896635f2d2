"""A job is checked and started: once, or once for its idempotency key. The `afo` command and Python begin alike."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from msgspec.structs import replace

from afo.data.prepare.markers import await_markers
from afo.errors import NotFound
from afo.job import Job
from afo.job.loader import JobSource
from afo.job.smoke import smoke_job
from afo.protocol.am_config import AmConfig
from afo.site.config import Config, RuntimeName, user_name
from afo.site.user_state import UserState
from afo_client.jobs.ref import JobRef, job_ref
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.feature_statistics import feature_statistics
from afo_client.submission.first_rows import limited
from afo_client.submission.idempotency import Once
from afo_client.submission.inspection import Inspection, inspect_job
from afo_client.submission.job_warnings import job_warnings
from afo_client.submission.start import am_config, remember, start_job
from afo_client.submission.trial import tried


@dataclass(frozen=True)
class Key:
    """An idempotency key. With `retry`, a job of it that FAILED or was KILLED is followed by another."""

    text: str
    retry: bool = False


@dataclass(frozen=True)
class Prepared:
    """A submission that was checked; nothing of it runs yet."""

    config: Config
    found: Inspection
    submitted: AmConfig

    @property
    def schema(self) -> str:
        """The schema's text."""
        return self.found.schema_text.decode()

    def start(self, tell: Callable[[str], None] = lambda _: None) -> JobRef:
        """Start it; it is the user's last job from then on. `tell` hears what was sent to the cluster."""
        statistics = feature_statistics(self.submitted.job, self.found)
        return start_job(self.config, self.submitted, self.schema, tell, statistics)


def look_at(config: Config, job: Job) -> Inspection:
    """All that the job names, as it is now, with what is probably not meant. Raises what is wrong with the job."""
    config.check(job)
    root, runtime = config.jobs_root(config.runtime.value), config.runtime.value
    UserState(config.state_dir).make_above(root)
    found = inspect_job(job, root)
    if job.program:
        return found
    return replace(found, warnings=tuple(job_warnings(job, found, local=runtime == "local")))


def prepare(
    config: Config, job: Job, source: JobSource | None, mark: str = "", *, limit: int | None = None,
    write: bool = True, trial: bool = False,
) -> Prepared:  # fmt: skip
    """Look at all that the job names; with `limit` it becomes a smoke run over so many records.

    With `write=False` no file of these records is made. With `trial` the first step of a model of `model.entry` is
    tried. Raises what is wrong with the job.
    """
    root = config.jobs_root(config.runtime.value)
    if limit is not None:
        job = smoke_job(job, limit)
    found = look_at(config, job)
    if trial and job.model.entry:
        found = tried(job, found, local=config.runtime.value == "local")
    if limit is not None:
        job, found = limited(job, found, limit, root, write=write)
    return Prepared(config, found, replace(am_config(config, job, found, source), once=mark))


def begin(
    config: Config, job: Job, source: JobSource | None, key: Key | None,
    start: Callable[[Prepared], JobRef] = Prepared.start, tell: Callable[[str], None] = lambda _: None,
    limit: int | None = None, trial: bool = True,
) -> tuple[JobRef, bool]:  # fmt: skip
    """The job, and whether it was started here by `start`, or before with the same key; `limit` and `trial` as of
    `prepare`.

    Where `data.wait_for` says so, it waits for its data first; `tell` hears of it. Raises what is wrong with the job
    or the cluster, nothing runs then; `WaitTimeout` when others contend for the key.
    """
    # What the site forbids is not worth a wait of hours.
    config.check(job)
    await_markers(job.data, job.timeouts.data, tell)
    if key is None:
        return start(prepare(config, job, source, limit=limit, trial=trial)), True
    runtime: RuntimeName = "yarn" if config.runtime.value == "yarn" else "local"
    root = config.jobs_root(runtime)
    UserState(config.state_dir).make_above(root)
    once = Once(root, user_name(), key.text, runtime_for(runtime, config))
    job_id, new = once.run(
        lambda mark: start(prepare(config, job, source, mark, limit=limit, trial=trial)).job_id,
        lambda job_id: not key.retry or _will_do(config, job_id),
    )
    if not new:
        remember(UserState(config.state_dir), job_id)
    return job_ref(config, job_id), new


def _will_do(config: Config, job_id: str) -> bool:
    """The earlier job runs or has SUCCEEDED."""
    ref = job_ref(config, job_id)
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch:
        try:
            return watch.glance().state not in ("FAILED", "KILLED")
        except NotFound:
            return False
