"""`afo submit` on YARN: the plan's effects, in the order in which they can be refused."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from afo import storage
from afo.errors import AfoError, AlreadyExists, ClusterUnreachable
from afo.formats import json_file
from afo.hadoop import conf, kerberos
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.yarn.queues import Resource
from afo.yarn.resource_manager import from_configuration
from afo.yarn.submission import (
    AM_CONFIG,
    CHILD_TEMPLATE,
    KEYTAB,
    PRIVATE,
    SECRET,
    SubmitPlan,
    application_spec,
    child_template,
    submit_plan,
)
from afo_client.runtimes.yarn.keytab import GIVEN
from afo_client.runtimes.yarn.preflight import check
from afo_client.runtimes.yarn.staging import StagedFile, cache_url, stage
from afo_client.terminal.console import pluralize, say, size_text


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What a submission led to."""

    application_id: str
    #: Files of the cache; `sent` tells which were not there before.
    files: tuple[StagedFile, ...]


def make_plan(config: AmConfig, *, schema: str) -> SubmitPlan:
    """The plan of a submission from this machine: its interpreter, its Hadoop configuration, the job's files.

    `config` may leave out `job_id`, `secret_file`, `schema_file` and `python`; `schema` is the schema's text.
    Raises `SpecError` for a file's name, `ClusterUnreachable` without a Hadoop configuration.
    """
    folder = conf.conf_dir()
    if folder is None:
        raise ClusterUnreachable(
            "HADOOP_CONF_DIR is not set: there is no cluster to submit to; `afo cluster start` makes one"
        )
    if GIVEN.get() is not None:
        config = msgspec.structs.replace(config, principal=kerberos.ticket().principal)
    files = tuple(f"{path}/" if os.path.isdir(path) else path for path in config.job.environment.files)
    return submit_plan(config, schema=schema, files=files, hadoop_conf=str(folder), interpreter=sys.executable)


def check_plan(plan: SubmitPlan) -> Resource:
    """The largest container of the cluster, which has the job's queue and a node for each of its containers."""
    if conf.demands_kerberos():
        kerberos.ticket()  # without which everything fails, in words of its own
    offer = from_configuration(plan.config.user).offer()
    check(plan.config.job, offer)
    return offer.largest


def submit(plan: SubmitPlan, secret: str) -> Submission:
    """Check, send, start. Raises `AfoError`; nothing runs on the cluster then."""
    from afo_client.runtimes.yarn import skein_driver  # slow to import, and only this needs it

    largest = check_plan(plan)
    files = stage(plan, cache_url(plan.config.user))
    with private_files(plan, secret) as private:
        spec = application_spec(plan, {**private, **{file.name: file.url for file in files}}, largest.memory)
        return Submission(application_id=skein_driver.submit(spec), files=files)


def dry_run(plan: SubmitPlan) -> dict[str, Any]:
    """The submission context that `submit` would send, checked against the cluster; sends nothing."""
    largest = check_plan(plan)
    files = stage(plan, cache_url(plan.config.user), send=False)
    private = {name: f"file:///(written at submit)/{name}" for name in (*PRIVATE, KEYTAB)}
    return application_spec(plan, {**private, **{file.name: file.url for file in files}}, largest.memory)


@contextmanager
def private_files(plan: SubmitPlan, secret: str) -> Iterator[dict[str, str]]:
    """The files of one submission alone, while skein copies them into the application's own directory (mode 0700)."""
    with tempfile.TemporaryDirectory(prefix="afo-submit-") as folder:
        file = Path(folder, SECRET)
        file.touch(mode=0o600)
        file.write_text(secret, encoding="ascii")
        json_file.write_private(Path(folder, AM_CONFIG), plan.config)
        json_file.write_private(Path(folder, CHILD_TEMPLATE), child_template(plan.config))
        keytab = {} if GIVEN.get() is None else {KEYTAB: f"file://{GIVEN.get()}"}
        yield {**{name: f"file://{folder}/{name}" for name in PRIVATE}, **keytab}


def publish(config: AmConfig, job_id: str) -> None:
    """Write `job.json` of a job that was submitted: it may wait long for an Application Master, which writes it too.

    Until then no page and no other machine would know of the job. It runs whether this succeeds or not.
    """
    paths = JobPaths(config.jobs_root, job_id)
    try:
        storage.make_dirs(paths.dir, mode=0o700)  # it holds the environment of the tasks
        storage.write_bytes(
            paths.job, json_file.encode(msgspec.structs.replace(config, job_id=job_id)), overwrite=False
        )
    except AlreadyExists:
        pass  # the Application Master was quicker
    except AfoError as error:
        say(f"warning: the history server knows of {job_id} once its Application Master runs: {error}")


def sent_text(files: Sequence[StagedFile]) -> str:
    """How much of what the containers need had to be sent to the cluster."""
    sent = [file for file in files if file.sent]
    size = size_text(sum(file.size for file in sent))
    return f"sent {size} in {pluralize(len(sent), 'file')} to the cluster; {len(files) - len(sent)} were there already"
