"""Reference to a job: which one a command means, and where it lies."""

from dataclasses import dataclass

from afo import storage
from afo.errors import NotFound, SpecError, UsageError
from afo.job.paths import JobPaths, check_job_id
from afo.site.config import Config, RuntimeName, runtime_of
from afo.site.user_state import UserState
from afo_client.runtimes.choice import runtime_for


@dataclass(frozen=True)
class JobRef:
    """A job: its id, the runtime that runs it, its paths, and its secret if this user holds it."""

    job_id: str
    runtime: RuntimeName
    paths: JobPaths
    secret: str | None = None


def job_ref(config: Config, job_id: str) -> JobRef:
    """The job of an id, whether it exists or not."""
    paths = JobPaths(config.root_of(job_id), job_id)
    return JobRef(job_id, runtime_of(job_id), paths, UserState(config.state_dir).secret(job_id))


def find_job(config: Config, named: str | None) -> JobRef:
    """The job a user named, or submitted last. Raises `UsageError` or `NotFound`."""
    job_id = named or UserState(config.state_dir).last_job()
    if job_id is None:
        raise UsageError("no job was named, and none was submitted from here yet; `afo ls` shows the jobs there are")
    try:
        ref = job_ref(config, check_job_id(job_id))
    except SpecError as error:
        raise UsageError(str(error)) from error
    if not storage.exists(ref.paths.dir):
        _check_submitted(config, ref)
    return ref


def _check_submitted(config: Config, ref: JobRef) -> None:
    """YARN knows a job from its submission on; where the client could not make its directory, the AM does, later.

    Raises NotFound for one that YARN does not know, or that came to a good end in another directory.
    """
    try:
        application = runtime_for(ref.runtime, config).application(ref.job_id)
    except NotFound as error:
        raise NotFound(
            f"there is no job {ref.job_id} in {ref.paths.root}; `afo ls` shows the jobs there are"
        ) from error
    if application.final == "SUCCEEDED":
        raise NotFound(
            f"{ref.job_id} has SUCCEEDED, and its directory is not in {ref.paths.root}: it was removed, or the job was"
            " submitted with another `jobs_root` (AFO_JOBS_ROOT, or the site's configuration)"
        )
