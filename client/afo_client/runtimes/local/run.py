"""Jobs of the `local` runtime: starts a job's supervisor, which goes on without the client.

<job directory>/am/       am-config.json, secret (0400) and schema.yaml: what the AM is started with
                am/lock   held as long as the supervisor lives (see `afo.process.pidfile`)
                logs/am/1/{stdout,stderr}
"""

import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from afo.errors import SpecError, unwritable
from afo.formats import json_file
from afo.job import Environment
from afo.job.paths import JobPaths
from afo.job_dir.local_job import am_dir, am_lock
from afo.process import pidfile
from afo.protocol.am_config import AmConfig
from afo.storage.url import parse
from afo.yarn.submission import AM_CONFIG, SCHEMA, child_config

SECRET = "secret"


def start(config: AmConfig, *, schema: str, secret: str) -> str:
    """Start a job and return its id. Raises `StorageError` for a directory on another machine, `unwritable`."""
    prepared = _prepare_config(config, _new_id())
    paths = JobPaths(prepared.jobs_root, prepared.job_id)
    folder, logs = am_dir(paths), Path(parse(paths.am_log(1)).path)
    with _make_directory(folder.parent):  # first: it is private with all it will hold
        for directory in (folder, logs):
            directory.mkdir(mode=0o700, parents=True)
        _write(folder / SCHEMA, schema, 0o600)
        _write(folder / SECRET, secret, 0o400)
        json_file.write_private(folder / AM_CONFIG, prepared)
        # Nobody waits for it: this process ends before its job does.
        pidfile.start(_command(folder), am_lock(paths), env=os.environ, stdout=logs / "stdout", stderr=logs / "stderr")
    return prepared.job_id


@contextmanager
def _make_directory(directory: Path) -> Iterator[None]:
    """A job's new directory, which goes again where its job does not start."""
    try:
        directory.mkdir(mode=0o700, parents=True)
        try:
            yield
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
    except OSError as error:
        raise unwritable(error, f"cannot start a job in {directory}: {error.strerror or error}") from error


def dry_run(config: AmConfig) -> dict[str, Any]:
    """What `start` would start."""
    prepared = _prepare_config(config, "local_0_0")
    paths = JobPaths(prepared.jobs_root, prepared.job_id)
    return {
        "command": _command(am_dir(paths)),
        "am_config": msgspec.json.decode(json_file.encode(prepared)),
        "child_config": msgspec.json.decode(json_file.encode(child_config(prepared, paths))),
    }


def _prepare_config(config: AmConfig, job_id: str) -> AmConfig:
    check_environment(config.job.environment)
    folder = am_dir(JobPaths(config.jobs_root, job_id))
    return replace(
        config,
        job_id=job_id,
        secret_file=str(folder / SECRET),
        schema_file=str(folder / SCHEMA),
        python=sys.executable if config.job.program else config.job.environment.python or sys.executable,
    )


def check_environment(environment: Environment) -> None:
    """Refuse what only YARN does of an environment. Raises `SpecError`."""
    if environment.is_packed:
        raise SpecError(
            f"$.environment.python: {environment.python} is an archive, which only YARN unpacks; leave it "
            "out on this machine (--set environment.python=), or unpack it and name its bin/python"
        )
    if environment.docker is not None:
        raise SpecError(
            f"$.environment.docker: only YARN starts containers of an image ({environment.docker.image}); leave it out "
            "on this machine (--set environment.docker=), or use --runtime yarn"
        )


def _new_id() -> str:
    return f"local_{int(time.time() * 1000)}_{random.randrange(10_000):04d}"


def _command(folder: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "afo_am.supervisor", str(folder / AM_CONFIG)]


def _write(path: Path, text: str, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
