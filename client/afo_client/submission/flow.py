"""Submission as one flow: a job's data is awaited, the job is planned and started; once, or once for its key.

The `afo` command and Python submit alike. What each stage takes and gives:

    read_job      file -> Job            `afo.job.loader`
    plan_job      Job -> Plan            `plan`: its inspection, its first step, what its Application Master is told
    start_job     Plan -> a running job  `start`: the runtime's effects, and what the user and the history server keep
"""

from collections.abc import Callable
from contextlib import closing

from afo.data.prepare.markers import await_markers
from afo.errors import NotFound
from afo.job import Job
from afo.job.loader import JobSource
from afo.site.config import Config, RuntimeName, user_name
from afo.site.user_state import UserState
from afo_client.jobs.ref import JobRef, job_ref
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.idempotency import Key, Once
from afo_client.submission.plan import Plan, plan_job
from afo_client.submission.start import remember, start_job


def submit_job(
    config: Config, job: Job, source: JobSource | None, key: Key | None = None, *, limit: int | None = None,
    trial: bool = True, start: Callable[[Plan], JobRef] = start_job, tell: Callable[[str], None] = lambda _: None,
) -> tuple[JobRef, bool]:  # fmt: skip
    """The job, and whether it was started here by `start`, or before with the same key.

    `limit` and `trial` are those of `plan_job`. Where `data.wait_for` says so, it waits for its data first; `tell`
    hears of it. Raises what is wrong with the job or the cluster, nothing runs then; `WaitTimeout` when others contend
    for the key.
    """
    # What the site forbids is not worth a wait of hours.
    config.limits.check(job, config.site)
    await_markers(job.data, job.timeouts.data, tell)

    def plan_and_start(mark: str) -> JobRef:
        return start(plan_job(config, job, source, limit=limit, trial=trial, mark=mark))

    return (plan_and_start(""), True) if key is None else _submit_once(config, key, plan_and_start)


def _submit_once(config: Config, key: Key, submit: Callable[[str], JobRef]) -> tuple[JobRef, bool]:
    runtime: RuntimeName = "yarn" if config.runtime.value == "yarn" else "local"
    root = config.jobs_root(runtime)
    UserState(config.state_dir).make_above(root)
    once = Once(root, user_name(), key.text, runtime_for(runtime, config))
    job_id, new = once.run(
        lambda mark: submit(mark).job_id, lambda job_id: not key.retry or _runs_or_succeeded(config, job_id)
    )
    if not new:
        remember(UserState(config.state_dir), job_id)
    return job_ref(config, job_id), new


def _runs_or_succeeded(config: Config, job_id: str) -> bool:
    ref = job_ref(config, job_id)
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch:
        try:
            return watch.glance().state not in ("FAILED", "KILLED")
        except NotFound:
            return False
