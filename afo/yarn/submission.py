"""The plan of a submission to YARN, as plain data. Submit is this plan and its effects; a dry run prints it.

An application is skein's ApplicationMaster with our supervisor as its driver script, and one *service* a role without
any instance: our AM asks for each container by itself (`am/afo_am/runtime/yarn.py`). A service is fixed at submit, so
each role has a second one with more memory, for a task that YARN killed for its memory.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from afo.errors import SpecError
from afo.job import Docker, Job, Role, RoleSpec
from afo.job.entry_point import own_code, with_own_code
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.protocol.child_config import CONFIG, ChildConfig

#: Every application of ours bears this tag; YARN knows them all as type `skein`.
TAG = "afo"

# Names in a container's working directory.
SECRET = "afo-secret"
KEYTAB = "afo-keytab"
AM_CONFIG = "am-config.json"
CHILD_CONFIG = "child-config.json"
CHILD_TEMPLATE = "child-config.template.json"
SCHEMA = "schema.yaml"
HADOOP_CONF = "hadoop-conf"
ENVIRONMENT = "environment"
#: Written for one submission, readable by its user alone, removed with the application.
PRIVATE = (SECRET, AM_CONFIG, CHILD_TEMPLATE)
#: What the AM's container needs; the user's files are for the tasks.
_OF_MASTER = frozenset({SECRET, KEYTAB, AM_CONFIG, SCHEMA, HADOOP_CONF, ENVIRONMENT})
#: What tasks have no use for.
_NOT_OF_TASKS = frozenset({AM_CONFIG, KEYTAB})
RESERVED = frozenset({*PRIVATE, KEYTAB, CHILD_CONFIG, SCHEMA, HADOOP_CONF, ENVIRONMENT})

#: The id in the template of the Child's configuration: YARN gives the real one only when all files are uploaded.
UNKNOWN_ID = "application_0_0"

_PYTHON_OF_IMAGE = "python3"

MORE_MEMORY_FACTOR = 1.5
_MAX_TAGS, _MAX_TAG_LENGTH = 10, 100
#: YARN writes these names into a shell script between double quotes.
_UNSAFE_NAME = re.compile(r'["$`\\/\x00-\x1f\x7f]|^\.')


class PlannedFile(Struct, frozen=True, kw_only=True):
    """A file of every container: its name there, and where it is now (a local path, or a URL that YARN reads)."""

    name: str
    source: str
    #: YARN unpacks it into a directory of this name.
    archive: bool = False


class SubmitPlan(Struct, frozen=True, kw_only=True):
    """One submission to YARN, complete but for what only the cluster can say."""

    config: AmConfig
    #: Of every task, with `UNKNOWN_ID` for the application's id.
    child: ChildConfig
    #: Text of the feature schema.
    schema: str
    #: Everything else that containers need, private files excepted.
    files: tuple[PlannedFile, ...]
    #: The interpreter as the AM's container sees it.
    interpreter: str
    #: As those of the tasks see it: with Docker, in the image.
    task_interpreter: str


def submit_plan(
    config: AmConfig, *, schema: str, files: tuple[str, ...], hadoop_conf: str, interpreter: str
) -> SubmitPlan:
    """Plan the submission of `config.job`.

    `files` are local paths of files and folders (a folder is packed), `hadoop_conf` the client's configuration
    directory, `interpreter` the Python that runs where the job names none.
    Raises `SpecError` for a name that cannot be used in a container, naming its place in the job file.
    """
    planned = [_plan_file(path, f"$.environment.files[{number}]") for number, path in enumerate(files)]
    names = [file.name for file in planned]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise SpecError(f"$.environment.files[{number}]: two files are called {name!r}; rename one")
    job, code = _with_code_sent(config.job, planned)
    planned += code
    if job.environment.is_packed:
        planned.append(PlannedFile(name=ENVIRONMENT, source=job.environment.python, archive=True))
    planned.append(PlannedFile(name=HADOOP_CONF, source=hadoop_conf, archive=True))
    master, task = _interpreters(job, interpreter)
    localised = replace(config, job=job, job_id="", secret_file=SECRET, schema_file=SCHEMA, python=master)
    return SubmitPlan(
        config=localised,
        child=child_config(localised, JobPaths(config.jobs_root, UNKNOWN_ID)),
        schema=schema,
        files=tuple(planned),
        interpreter=master,
        task_interpreter=task,
    )


def _interpreters(job: Job, ours: str) -> tuple[str, str]:
    """Of the AM and of the tasks. skein's ApplicationMaster is Java of the node, so the AM never runs in an image."""
    environment = job.environment
    if environment.is_packed:
        packed = f"./{ENVIRONMENT}/bin/python"
        return packed, packed
    if environment.docker is not None:
        return ours, environment.python or _PYTHON_OF_IMAGE
    return (ours if job.program else environment.python or ours,) * 2


def _with_code_sent(job: Job, planned: list[PlannedFile]) -> tuple[Job, list[PlannedFile]]:
    """The job with its own code as a container names it, and the file to send for that, if none of `planned` holds it.

    A file inside of a folder that is sent stays beside its neighbours there, which it may import.
    """
    code = own_code(job)
    if code is None:
        return job, []
    for file in planned:
        if file.source == code.path or (file.archive and code.path.startswith(file.source)):
            return with_own_code(job, file.name + code.path.removeprefix(file.source.rstrip("/"))), []
    sent = _plan_file(code.path, code.where)
    if any(file.name == sent.name for file in planned):
        raise SpecError(f"{code.where}: `environment.files` has another file called {sent.name!r}; rename one")
    return with_own_code(job, sent.name), [sent]


def child_config(config: AmConfig, paths: JobPaths) -> ChildConfig:
    """What every Child of the job reads."""
    job = config.job
    return ChildConfig(
        job=job,
        job_id=paths.job_id,
        runtime=config.runtime,
        am_address_url=paths.address,
        secret_file=config.secret_file,
        schema_file=config.schema_file,
        files_url=paths.files,
        checkpoint_url=paths.checkpoints(job.checkpoint.dir),
        export_url=job.export.dir or paths.export,
        summary_url=paths.summaries,
        logs_url=paths.logs,
        python=_process_python(config),
    )


def _process_python(config: AmConfig) -> str:
    """The interpreter of the tasks' processes; '' is that of their Children.

    A program may have one of its own, without afo and with another TensorFlow. An archive or image holds both.
    """
    environment = config.job.environment
    if config.job.program and not environment.is_packed and environment.docker is None:
        return environment.python
    return config.python if config.runtime == "local" else ""


def service_name(role: Role, *, more_memory: bool = False) -> str:
    """The skein service of a role."""
    return f"{role}-more-memory" if more_memory else role


def application_spec(plan: SubmitPlan, sources: Mapping[str, str], largest: int) -> dict[str, Any]:
    """skein's ApplicationSpec as a dict, its key pair excepted.

    `sources` maps each name of a file in a container to a URL; `largest` is the memory in MiB of the largest
    container that the cluster can give: a request beyond it would end the whole application.
    Raises `SpecError` for tags that YARN refuses.
    """
    job = plan.config.job
    files = dict(_localise_files(plan, sources))
    return {
        "name": job.name,
        "queue": job.queue,
        "tags": _tags(job, plan.config.once),
        "max_attempts": job.am.attempts,
        "master": {
            "resources": {"memory": int(job.am.memory), "vcores": job.am.vcores},
            "script": _script(plan.interpreter, "-m", "afo_am.supervisor", AM_CONFIG),
            "files": {name: file for name, file in files.items() if name in _OF_MASTER},
            "log_level": "INFO",
        },
        "services": {
            service_name(role, more_memory=more): _service(plan, spec, files, largest if more else 0)
            for role, spec in sorted(job.roles.items())
            for more in (False, True)
        },
    }


def _service(plan: SubmitPlan, spec: RoleSpec, files: Mapping[str, Any], most: int) -> dict[str, Any]:
    memory = int(spec.memory)
    more = max(memory, min(int(memory * MORE_MEMORY_FACTOR), most))
    runtime = docker_variables(plan.config.job.environment.docker)
    return {
        # Containers are asked for one by one, and nothing that happens to them ends the application: the AM decides.
        "instances": 0,
        "max_restarts": 0,
        "allow_failures": True,
        "resources": {"memory": more, "vcores": spec.vcores, **({"gpus": spec.gpus} if spec.gpus else {})},
        "node_label": spec.node_label,
        "script": _child_script(plan.task_interpreter),
        "files": {name: file for name, file in files.items() if name not in _NOT_OF_TASKS},
        **({"env": runtime} if runtime else {}),
    }


def _script(interpreter: str, *arguments: str) -> str:
    # -P keeps the user's files out of sys.path: a `json.py` among them must not break our own programs.
    return "\n".join((*_PRELUDE, f"exec {shlex.join((interpreter, '-P', *arguments))}", ""))


_PRELUDE = (
    "umask 077",
    "unset PYTHONPATH PYTHONHOME",
    f'export HADOOP_CONF_DIR="$PWD/{HADOOP_CONF}"',
)


def _child_script(interpreter: str) -> str:
    return "\n".join(
        (
            *_PRELUDE,
            f'sed "s/{UNKNOWN_ID}/$SKEIN_APPLICATION_ID/g" {CHILD_TEMPLATE} > {CHILD_CONFIG}',
            f'export {CONFIG}="$PWD/{CHILD_CONFIG}"',
            f"exec {shlex.join((interpreter, '-P', '-m', 'afo_child'))}",
            "",
        )
    )


def _localise_files(plan: SubmitPlan, sources: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    archives = {file.name for file in plan.files if file.archive}
    private = (*PRIVATE, KEYTAB) if plan.config.principal else PRIVATE
    for name in (*private, SCHEMA, *(file.name for file in plan.files)):
        yield (
            name,
            {
                "source": sources[name],
                "type": "ARCHIVE" if name in archives else "FILE",
                # PRIVATE: kept on a node for all applications of this user; APPLICATION: gone with this one.
                "visibility": "APPLICATION" if name in private else "PRIVATE",
            },
        )


def _plan_file(path: str, where: str) -> PlannedFile:
    folder = path.endswith("/")
    name = path.rstrip("/").rsplit("/", 1)[-1]
    if not name or _UNSAFE_NAME.search(name):
        raise SpecError(f"{where}: a file in a container cannot be called {name!r}: no quotes, $, `, \\, leading dot")
    if name in RESERVED:
        raise SpecError(f"{where}: {name!r} is a name that afo uses itself in every container; rename the file")
    return PlannedFile(name=name, source=path, archive=folder)


def mark_tag(mark: str) -> str:
    """The tag of an application that was submitted with an idempotency key."""
    return f"{TAG}-once:{mark}"


def _tags(job: Job, mark: str) -> list[str]:
    ours = [TAG, mark_tag(mark)] if mark else [TAG]
    tags = [f"{key}:{value}" for key, value in sorted(job.tags.items())]
    for tag, key in zip(tags, sorted(job.tags), strict=True):
        if not tag.isascii() or len(tag) > _MAX_TAG_LENGTH:
            raise SpecError(f"$.tags.{key}: {tag!r} is no tag for YARN: at most {_MAX_TAG_LENGTH} ASCII characters")
    if len(ours) + len(tags) > _MAX_TAGS:
        most = _MAX_TAGS - len(ours)
        raise SpecError(f"$.tags: {len(tags)} tags are given; YARN takes {most} beside our own; remove some")
    return [*ours, *tags]


def docker_variables(docker: Docker | None) -> dict[str, str]:
    """Variables of a container's environment by which a NodeManager runs it in an image; empty where it does not.

    Formats: https://hadoop.apache.org/docs/r3.4.1/hadoop-yarn/hadoop-yarn-site/DockerContainers.html
    """
    if docker is None:
        return {}
    variables = {"YARN_CONTAINER_RUNTIME_TYPE": "docker", "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": docker.image}
    if docker.mounts:
        variables["YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS"] = ",".join(docker.mounts)
    if docker.network:
        variables["YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK"] = docker.network
    return variables
