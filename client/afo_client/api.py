"""Jobs from Python: what `submit`, `status`, `wait` and `kill` of the command line do, without words and terminal.

Every error is an `afo.errors.AfoError`, whose `exit_code` is what the command would end with. Nothing here needs the
main thread. A `Job` may be used from one thread at a time.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path

import msgspec

from afo.errors import AfoError
from afo.job.loader import read_job
from afo.site.config import Config, load_config
from afo.site.user_state import UserState
from afo_client.jobs.follow import await_end
from afo_client.jobs.kill import end_job
from afo_client.jobs.ref import JobRef, find_job
from afo_client.jobs.summary import places
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.flow import submit_job
from afo_client.submission.idempotency import Key


class JobFailed(AfoError):
    """The job FAILED; the text says why, `view` holds the rest."""

    exit_code = 1

    def __init__(self, view: JobView) -> None:
        super().__init__(f"{view.job_id} {view.state}: {view.message or 'no reason is known'}")
        self.view = view


class JobKilled(JobFailed):
    """The job was KILLED."""

    exit_code = 8


class Job:
    """A job that was submitted, here or elsewhere. `new` is False where an idempotency key found an earlier one."""

    def __init__(self, config: Config, ref: JobRef, *, new: bool) -> None:
        self._config, self._ref, self.new = config, ref, new

    def __repr__(self) -> str:
        return f"<afo job {self.id}>"

    @property
    def id(self) -> str:
        """`application_…` on YARN, `local_…` on this machine."""
        return self._ref.job_id

    def status(self) -> JobView:
        """Where it stands now. Raises `ClusterUnreachable` where nobody can say."""
        with closing(self._watch()) as watch:
            return watch.look()

    def wait(self, timeout: float | None = None) -> JobView:
        """The job once it has SUCCEEDED; `timeout` in seconds.

        Raises `JobFailed`, `JobKilled`, `WaitTimeout` (the job goes on), `ClusterUnreachable`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with closing(self._watch()) as watch:
            view = await_end(watch, deadline)
        UserState(self._config.state_dir).forget_secret(self.id)
        if view.state == "SUCCEEDED":
            return view
        raise JobKilled(view) if view.state == "KILLED" else JobFailed(view)

    def kill(self, reason: str = "killed from Python") -> JobView:
        """The job once nothing of it is left; one that has ended stays as it is. Raises `WaitTimeout`."""
        with closing(self._watch()) as watch:
            view = end_job(watch, reason)
        UserState(self._config.state_dir).forget_secret(self.id)
        return view

    @property
    def metrics(self) -> dict[str, float]:
        """`auc`, `log_loss`, `calibration`, … of the exported checkpoint, before there is one of the last evaluation.

        Empty before there is either.
        """
        return self.status().metrics

    @property
    def places(self) -> dict[str, str]:
        """URLs of `model`, `checkpoints`, `summaries`, `logs` and `events`."""
        return places(self._ref)

    def _watch(self) -> JobWatch:
        return JobWatch(self._ref, runtime_for(self._ref.runtime, self._config))


def submit(
    job_file: str | PathLike[str], *, settings: Mapping[str, object] | None = None,
    variables: Mapping[str, object] | None = None, runtime: str | None = None, idempotency_key: str | None = None,
    retry: bool = False, limit: int | None = None, trial: bool = True,
) -> Job:  # fmt: skip
    """Check and start a job; returns as soon as the cluster has it.

    `settings` are values by dotted name (`{"data.epochs": 2}`), `variables` those of the job file. With a key that was
    used before, the job of that time is returned; with `retry` too, unless it FAILED or was KILLED. `limit` makes it a
    smoke run over so many records. The first step of a model of `model.entry` is tried before,
    unless `trial` is False.
    Raises `SpecError`, `DataError`, `ModelError`, `NotFound`, `PermissionDenied` or `ClusterUnreachable`; nothing runs
    then.
    """
    config = load_config(runtime)
    dotted = [f"{name}={msgspec.json.encode(value).decode()}" for name, value in (settings or {}).items()]
    given = {name: str(value) for name, value in (variables or {}).items()}
    job, source = read_job(Path(job_file), settings=dotted, variables=given, below=config.defaults)
    key = None if idempotency_key is None else Key(idempotency_key, retry)
    ref, new = submit_job(config, job, source, key, limit=limit, trial=trial)
    return Job(config, ref, new=new)


def open_job(job_id: str | None = None) -> Job:
    """A job that there is; the one submitted last without a name. Raises `NotFound`, `UsageError`."""
    config = load_config()
    return Job(config, find_job(config, job_id), new=False)
