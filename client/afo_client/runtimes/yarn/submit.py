"""`afo submit` on YARN: the plan's effects, in the order in which they can be refused."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from afo.errors import ClusterUnreachable
from afo.formats import json_file
from afo.hadoop import conf, kerberos
from afo.protocol.am_config import AmConfig
from afo.yarn.resource_manager import ResourceManager, from_configuration
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


def submit(plan: SubmitPlan, secret: str) -> Submission:
    """Check, send, start. Raises `AfoError`; nothing runs on the cluster then."""
    from afo_client.runtimes.yarn import skein_driver  # slow to import, and only this needs it

    largest = check(plan.config.job, _manager(plan.config.user))
    files = stage(plan, cache_url(plan.config.user))
    with private_files(plan, secret) as private:
        spec = application_spec(plan, {**private, **{file.name: file.url for file in files}}, largest.memory)
        return Submission(application_id=skein_driver.submit(spec), files=files)


def dry_run(plan: SubmitPlan) -> dict[str, Any]:
    """The submission context that `submit` would send, checked against the cluster; sends nothing."""
    largest = check(plan.config.job, _manager(plan.config.user))
    files = stage(plan, cache_url(plan.config.user), send=False)
    private = {name: f"file:///(written at submit)/{name}" for name in (*PRIVATE, KEYTAB)}
    return application_spec(plan, {**private, **{file.name: file.url for file in files}}, largest.memory)


def _manager(user: str) -> ResourceManager:
    if conf.demands_kerberos():
        kerberos.ticket()  # without which everything fails, in words of its own
    return from_configuration(user)


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
