"""Plan of a submission: a job, checked against all that it names, as its Application Master will be told of it."""

import time
from dataclasses import dataclass

from msgspec.structs import replace

from afo import __version__
from afo.job import Job
from afo.job.loader import JobSource
from afo.job.smoke import smoke_job
from afo.protocol.am_config import AmConfig
from afo.site.config import Config, user_name
from afo.site.user_state import UserState
from afo_client.submission.first_rows import limit_records
from afo_client.submission.inspection import Inspection, complete_job, inspect_job
from afo_client.submission.job_warnings import job_warnings, small_containers
from afo_client.submission.record_count import settle_steps
from afo_client.submission.shared_export import export_warnings
from afo_client.submission.trial import check_library, try_job


@dataclass(frozen=True)
class Plan:
    """A submission that was checked; nothing of it runs yet.

    The runtime fills in what `am_config` leaves out: the id, and paths inside of the container.
    """

    config: Config
    inspection: Inspection
    am_config: AmConfig

    @property
    def schema(self) -> str:
        """The schema's text."""
        return self.inspection.schema_text.decode()


def check_job(config: Config, job: Job) -> tuple[Job, Inspection]:
    """Complete the job by its schema and inspect all that it names, within what the site allows.

    Raises what is wrong with the job.
    """
    config.limits.check(job, config.site)
    root, runtime = config.jobs_root(config.runtime.value), config.runtime.value
    UserState(config.state_dir).make_above(root)
    job = complete_job(job)
    found = inspect_job(job, root)
    if job.program:
        return job, replace(found, warnings=tuple(small_containers(job)))
    check_library(job, local=runtime == "local")
    warnings = (*job_warnings(job, found, local=runtime == "local"), *export_warnings(job, root))
    return job, replace(found, warnings=warnings)


def plan_job(
    config: Config, job: Job, source: JobSource | None = None, *, limit: int | None = None, write: bool = True,
    trial: bool = False, mark: str = "",
) -> Plan:  # fmt: skip
    """Check a job and plan its submission; with `limit` it becomes a smoke run over so many records.

    With `write=False` no file of these records is made. With `trial` the first step of a model of `model.entry` is
    tried. The runtime finds the job by its `mark`. Raises what is wrong with the job.
    """
    root = config.jobs_root(config.runtime.value)
    if limit is not None:
        job = smoke_job(job, limit)
    job, found = check_job(config, job)
    if trial and job.model.entry:
        found = try_job(job, found, local=config.runtime.value == "local")
    if limit is not None:
        job, found = limit_records(job, found, limit, root, user_name(), write=write)
    return Plan(config, found, make_am_config(config, job, found, source, mark))


def make_am_config(
    config: Config, job: Job, found: Inspection, source: JobSource | None = None, mark: str = ""
) -> AmConfig:
    """What the Application Master will be told of a job whose files were found."""
    runtime = config.runtime.value
    if not job.program:
        export = replace(job.export, checkpoint=job.exported_checkpoint)
        job = replace(settle_steps(job, found.records), export=export)
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
        once=mark,
    )
