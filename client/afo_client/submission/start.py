"""Start of a planned job on its runtime, and what this user and the history server keep of it."""

from collections.abc import Callable

from msgspec.structs import replace

from afo.errors import AfoError
from afo.formats import json_file
from afo.job.paths import JobPaths
from afo.rpc.wire import new_secret
from afo.site.user_state import UserState
from afo_client.jobs.ref import JobRef, job_ref
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.history_files import gather_files
from afo_client.submission.plan import Plan
from afo_client.terminal.console import say


def start_job(plan: Plan, tell: Callable[[str], None] = lambda _: None) -> JobRef:
    """Start a job; this user keeps its secret, and it is the last job from now on. `tell` hears what was sent.

    Its code, and the statistics of its features, are kept with it.

    What this raises says that no job was started, unless it is `ClusterUnreachable`.
    """
    submitted = plan.am_config
    files = gather_files(submitted.job, plan.inspection)
    runtime = runtime_for(submitted.runtime, plan.config)
    state, secret = UserState(plan.config.state_dir), new_secret()
    with state.hold_secret(secret) as keep:
        job_id = runtime.submit(submitted, plan.schema, secret, tell)
        keep(job_id)
    remember(state, job_id, json_file.encode(replace(submitted, job_id=job_id)))
    files.write(JobPaths(submitted.jobs_root, job_id))
    return job_ref(plan.config, job_id)


def remember(state: UserState, job_id: str, submission: bytes | None = None) -> None:
    """Keep that a job is the last one, and what was submitted: it runs whether this succeeds or not."""
    try:
        if submission is not None:
            state.keep_submission(job_id, submission)
        state.remember_last(job_id)
    except AfoError as error:
        say(f"warning: {job_id} is not remembered as the last job: {error}")
