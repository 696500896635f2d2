"""Launch of a task's process: its task file, command line and environment."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from afo.errors import NotFound, Unsupported
from afo.formats import json_file
from afo.process import hosts
from afo.protocol.child_config import ChildConfig
from afo.protocol.task_environment import task_environment
from afo.protocol.train_task import TrainTask
from afo.rpc.messages import Directive, TaskId

TASK_FILE = "task.json"
#: Directory below the working directory for what a program keeps (`AFO_MODEL_DIR`).
MODEL_DIR = "model"
_LOG = logging.getLogger(__name__)


class Way(NamedTuple):
    """How the TensorFlow of this task and that of others reach each other; each is `host:port`, or '' for none."""

    #: Where others find it: a port that was reserved, or the entrance of the tunnel.
    address: str = ""
    #: Where it listens for them behind the tunnel, and the proxy that its own connections go through.
    listen: str = ""
    proxy: str = ""


def command(
    config: ChildConfig, task: TaskId, directive: Directive, way: Way, work_dir: Path, progress_fd: int
) -> list[str]:
    """The command line of a program, or of the trainer, whose task file it writes. Raises `OSError`."""
    python = config.python or sys.executable
    if config.job.program:
        return [python, config.job.program, *config.job.args]
    return [python, "-m", "afo.train", str(_write_task(config, task, directive, way, work_dir, progress_fd))]


def _write_task(
    config: ChildConfig, task: TaskId, directive: Directive, way: Way, work_dir: Path, progress_fd: int
) -> Path:
    """A file of mode 0600."""
    path = work_dir / TASK_FILE
    json_file.write_private(
        path,
        TrainTask(
            job_id=config.job_id, role=task.role, index=task.index, attempt=task.attempt,
            generation=directive.generation, is_chief=directive.is_chief, ps=directive.ps,
            num_workers=directive.num_workers, splits_at_start=directive.splits_at_start, files_url=config.files_url,
            job=config.job, schema_file=config.schema_file, am_address_url=config.am_address_url,
            secret_file=config.secret_file, work_dir=str(work_dir), checkpoint_url=config.checkpoint_url,
            export_url=config.export_url, summary_url=config.summary_url,
            progress_fd=progress_fd, address=way.address, proxy=way.proxy,
        ),
    )  # fmt: skip
    return path


def environment(
    config: ChildConfig, task: TaskId, directive: Directive, way: Way, inherited: Mapping[str, str], work_dir: Path
) -> dict[str, str]:
    """The process's whole environment.

    Raises `NotFound` if the library of `environment.preload` cannot be loaded.
    """
    vcores = config.job.roles[task.role].vcores
    wanted = task_environment(
        config.job, task.role, task.index, vcores, inherited, directive.cluster or {"ps": directive.ps}
    )
    result = wanted.apply_to(inherited)
    if config.job.program:
        result |= {"AFO_MODEL_DIR": str(work_dir / MODEL_DIR), "AFO_GENERATION": str(directive.generation)}
    if config.job.environment.preload:
        check_preload(result)
    return {**result, **_listening(result, way)}


def _listening(env: Mapping[str, str], way: Way) -> dict[str, str]:
    """What makes its server listen on its own address alone; nothing where that cannot be had.

    Raises `NotFound` where it cannot be had and there is a tunnel, which would be one beside an open door.
    """
    address = way.listen or way.address
    try:
        own = (
            {} if hosts.LISTEN_VARIABLE in env or not address else {hosts.LISTEN_VARIABLE: hosts.listen_place(address)}
        )
        return {**own, "LD_PRELOAD": hosts.extend_preload(env.get("LD_PRELOAD", ""))}
    except Unsupported as reason:
        if way.listen:
            raise NotFound(f"`security.tunnel` takes a library that cannot be preloaded here: {reason}") from reason
        _LOG.warning("TensorFlow's server will listen on all addresses: %s", reason)
        return {}


def check_preload(env: Mapping[str, str]) -> None:
    """Raises `NotFound` if the dynamic loader refuses what LD_PRELOAD names.

    The loader itself only warns and goes on without the library, so a tiny program is started to hear the warning.
    """
    true = shutil.which("true", path=os.defpath) or "true"
    probe = subprocess.run(
        [true], env={**env, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
    )
    words = probe.stderr.decode(errors="replace").strip()
    if "LD_PRELOAD" in words or probe.returncode != 0:
        raise NotFound(
            f"LD_PRELOAD={env['LD_PRELOAD']} cannot be loaded: {words or probe.returncode}; "
            "`environment.preload` names a library that the loader of every node finds, or its full path"
        )
