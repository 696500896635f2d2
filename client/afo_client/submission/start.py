"""Start of a job on its runtime, or the plan of it."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from afo import __version__, storage
from afo.data.prepare.profile import Profile
from afo.errors import AfoError, AlreadyExists
from afo.formats import json_file
from afo.job import Job
from afo.job.loader import JobSource
from afo.job.paths import JobPaths
from afo.job_dir.code_snapshot import encoded, snapshot
from afo.protocol.am_config import AmConfig
from afo.rpc.wire import new_secret
from afo.site.config import Config, user_name
from afo.site.user_state import UserState
from afo_client.jobs.ref import JobRef, job_ref
from afo_client.submission.inspection import Inspection
from afo_client.submission.record_count import eval_interval, scheduled
from afo_client.submission.task_preview import task_previews
from afo_client.terminal.console import counted, say, size_text

if TYPE_CHECKING:  # the package is slow to import, and only YARN needs it
    from afo_client.runtimes.yarn.staging import StagedFile


def am_config(config: Config, job: Job, found: Inspection, source: JobSource | None = None) -> AmConfig:
    """What the Application Master will be told; the runtime fills in paths inside of the container, and the id."""
    runtime = config.runtime.value
    if not job.program:
        optimizer = replace(job.optimizer, schedule=scheduled(job, found.records))
        train = replace(job.train, eval_every=eval_interval(job, found.records))
        job = replace(
            job, optimizer=optimizer, train=train, export=replace(job.export, checkpoint=job.exported_checkpoint)
        )
    return AmConfig(
        job=replace(job, data=replace(job.data, format=found.format)),
        user=user_name(),
        afo_version=__version__,
        runtime="yarn" if runtime == "yarn" else "local",
        jobs_root=config.jobs_root(runtime),
        train_files=tuple(split.url for split in found.splits),
        train_stats=tuple((split.size, split.modified) for split in found.splits),
        train_parts=tuple(split.part for split in found.splits) if job.data.split_size else (),
        eval_files=tuple(file.url for file in found.eval),
        secret_file="",
        schema_file="",
        submitted=time.time(),
        source=source,
    )


def start_job(
    config: Config, submitted: AmConfig, schema: str, tell: Callable[[str], None] = lambda _: None,
    statistics: Profile | None = None,
) -> JobRef:  # fmt: skip
    """Start a job; this user keeps its secret, and it is the last job from now on. `tell` hears what was sent.

    Its code, and the `statistics` of its features, are kept with it.

    What this raises says that no job was started, unless it is `ClusterUnreachable`.
    """
    state, secret = UserState(config.state_dir), new_secret()
    code = snapshot(submitted.job)  # as it is sent
    with state.hold_secret(secret) as keep:
        job_id = _start(submitted, schema, secret, tell)
        keep(job_id)
    remember(state, job_id, json_file.encode(replace(submitted, job_id=job_id)))
    paths = JobPaths(submitted.jobs_root, job_id)
    if code.files:
        _keep(paths.code, encoded(code))
    if statistics is not None:
        _keep(paths.features, msgspec.json.encode(statistics))
    return job_ref(config, job_id)


def remember(state: UserState, job_id: str, submission: bytes | None = None) -> None:
    """Keep that a job is the last one, and what was submitted: it runs whether this succeeds or not."""
    try:
        if submission is not None:
            state.keep_submission(job_id, submission)
        state.remember_last(job_id)
    except AfoError as error:
        say(f"warning: {job_id} is not remembered as the last job: {error}")


def _start(submitted: AmConfig, schema: str, secret: str, tell: Callable[[str], None]) -> str:
    if submitted.runtime == "yarn":
        from afo_client.runtimes import yarn

        plan = yarn.make_plan(submitted, schema=schema)
        submission = yarn.submit(plan, secret)
        tell(sent_text(submission.files))
        publish(replace(plan.config, job_id=submission.application_id))
        return submission.application_id
    from afo_client.runtimes.local import run

    return run.start(submitted, schema=schema, secret=secret)


def publish(config: AmConfig) -> None:
    """Write `job.json` of a job that was submitted: it may wait long for an Application Master, which writes it too.

    Until then no page and no other machine would know of the job. It runs whether this succeeds or not.
    """
    paths = JobPaths(config.jobs_root, config.job_id)
    try:
        storage.make_dirs(paths.dir, mode=0o700)  # it holds the environment of the tasks
        storage.write_bytes(paths.job, json_file.encode(config), overwrite=False)
    except AlreadyExists:
        pass  # the Application Master was quicker
    except AfoError as error:
        say(f"warning: the history server knows of {config.job_id} once its Application Master runs: {error}")


def _keep(url: str, data: bytes) -> None:
    """What the history server shows beside the job. It runs whether this succeeds or not."""
    try:
        storage.make_dirs(storage.parent(url), mode=0o700)
        storage.write_bytes(url, data)
    except AfoError as error:
        say(f"warning: {url} is not kept: {error}")


def sent_text(files: "Sequence[StagedFile]") -> str:
    """How much of what the containers need had to be sent to the cluster."""
    sent = [file for file in files if file.sent]
    size = size_text(sum(file.size for file in sent))
    return f"sent {size} in {counted(len(sent), 'file')} to the cluster; {len(files) - len(sent)} were there already"


def dry_run(submitted: AmConfig, schema: str) -> dict[str, object]:
    """The submission context and every task's environment; nothing is sent or started."""
    if submitted.runtime == "yarn":
        from afo_client.runtimes import yarn

        context: object = yarn.dry_run(yarn.make_plan(submitted, schema=schema))
    else:
        from afo_client.runtimes.local import run

        context = run.dry_run(submitted)
    return {"runtime": submitted.runtime, "submission": context, "tasks": task_previews(submitted.job)}
