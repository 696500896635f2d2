"""Jobs on YARN: their submission, effects in the order in which they can be refused, and how they are seen after it."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from afo import storage
from afo.errors import AfoError, AlreadyExists, ClusterUnreachable, PermissionDenied
from afo.formats import json_file
from afo.hadoop import conf, kerberos
from afo.job.paths import JobPaths
from afo.process.scratch import scratch_folder
from afo.protocol.am_config import AmConfig
from afo.site.config import user_name
from afo.yarn import resource_manager
from afo.yarn.queues import Resource
from afo.yarn.submission import (
    AM_CONFIG,
    CHILD_TEMPLATE,
    KEYTAB,
    PRIVATE,
    SECRET,
    TAG,
    SubmitPlan,
    application_spec,
    mark_tag,
    submit_plan,
)
from afo_client.runtimes.application import Application
from afo_client.runtimes.yarn.keytab import GIVEN
from afo_client.runtimes.yarn.preflight import check
from afo_client.runtimes.yarn.staging import StagedFile, cache_url, remove_private, stage
from afo_client.terminal.console import pluralize, say, size_text


class YarnJobs:
    """Asks the ResourceManager of $HADOOP_CONF_DIR; raises what `afo.yarn.resource_manager` raises."""

    @cached_property
    def _manager(self) -> resource_manager.ResourceManager:
        return resource_manager.from_configuration(user_name())

    def check(self, config: AmConfig, schema: str) -> None:
        """Its files and tags will do for YARN; the cluster has the queue, and a node for every container."""
        self._largest_for(make_plan(config, schema=schema))

    def submit(self, config: AmConfig, schema: str, secret: str, tell: Callable[[str], None]) -> str:
        """Check, send, start; then publish the job for those who look before its Application Master runs.

        Raises `AfoError`; nothing runs on the cluster then.
        """
        plan = make_plan(config, schema=schema)
        largest = self._largest_for(plan)
        files = stage(plan, cache_url(plan.config.user))
        job_id = start_application(plan, files, secret, largest)
        tell(sent_text(files))
        publish(plan.config, job_id)
        return job_id

    def dry_run(self, config: AmConfig, schema: str) -> dict[str, Any]:
        """The submission context that `submit` would send, checked against the cluster; sends nothing."""
        plan = make_plan(config, schema=schema)
        largest = self._largest_for(plan)
        files = stage(plan, cache_url(plan.config.user), send=False)
        private = {name: f"file:///(written at submit)/{name}" for name in (*PRIVATE, KEYTAB)}
        return application_spec(plan, {**private, **urls_of(files)}, largest.memory)

    def _largest_for(self, plan: SubmitPlan) -> Resource:
        """The largest container of the cluster, which has the job's queue and a node for each of its containers."""
        if conf.demands_kerberos():
            kerberos.ticket()  # without which everything fails, in words of its own
        offer = self._manager.offer()
        check(plan.config.job, offer)
        return offer.largest

    def application(self, job_id: str) -> Application:
        """One application."""
        return _application(self._manager.application(job_id))

    def applications(self) -> list[Application]:
        """Those that bear our tag and that YARN still remembers."""
        return [_application(application) for application in self._manager.applications(TAG)]

    def find_marked(self, mark: str) -> str | None:
        """By its tag."""
        return next((application.id for application in self._manager.applications(mark_tag(mark))), None)

    def kill(self, job_id: str) -> None:
        """End the application, and remove what it keeps in HDFS for itself alone."""
        try:
            self._manager.kill(job_id)
        except PermissionDenied:
            # With Kerberos, a web interface that knows nobody takes no orders; by RPC everybody is known.
            if not conf.demands_kerberos():
                raise
            from afo_client.runtimes.yarn import skein_driver  # slow to import

            skein_driver.kill(job_id)
        remove_private(job_id, self._manager.application(job_id).user)


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


def start_application(plan: SubmitPlan, files: Sequence[StagedFile], secret: str, largest: Resource) -> str:
    """Have skein start the application with these files of the cache; its id."""
    from afo_client.runtimes.yarn import skein_driver  # slow to import, and only this needs it

    with private_files(plan, secret) as private:
        return skein_driver.submit(application_spec(plan, {**private, **urls_of(files)}, largest.memory))


def urls_of(files: Sequence[StagedFile]) -> dict[str, str]:
    """Where each file of a container lies, by its name there."""
    return {file.name: file.url for file in files}


@contextmanager
def private_files(plan: SubmitPlan, secret: str) -> Iterator[dict[str, str]]:
    """The files of one submission alone, while skein copies them into the application's own directory (mode 0700)."""
    with scratch_folder("afo-submit-") as folder:
        file = Path(folder, SECRET)
        file.touch(mode=0o600)
        file.write_text(secret, encoding="ascii")
        json_file.write_private(Path(folder, AM_CONFIG), plan.config)
        json_file.write_private(Path(folder, CHILD_TEMPLATE), plan.child)
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


def _application(found: resource_manager.Application) -> Application:
    # An application that failed to start is FAILED with final status FAILED; one that finished has its own verdict.
    final = (found.final_status if found.state == "FINISHED" else found.state) if found.over else ""
    return Application(
        job_id=found.id,
        state=found.state,
        final=final,
        diagnostics=found.diagnostics.strip(),
        name=found.name,
        user=found.user,
        queue=found.queue,
        started=found.started_ms / 1000,
        ended=found.finished_ms / 1000,
        core_hours=found.vcore_seconds / 3600,
        memory_gb_hours=found.memory_seconds / 1024 / 3600,
        am_log=found.am_logs,
    )
