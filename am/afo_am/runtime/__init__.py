"""Container runtimes: where the AM's containers come from."""

import sys
from pathlib import Path

from afo.formats import json_file
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.protocol.child_config import CONFIG
from afo.storage.url import parse
from afo.yarn.submission import CHILD_CONFIG, child_config
from afo_am.runtime.base import Runtime


def make_runtime(config: AmConfig, paths: JobPaths) -> Runtime:
    """The runtime that `config` names. Raises `AfoError` when it cannot be reached."""
    if config.runtime == "yarn":
        from afo_am.runtime.yarn import YarnRuntime  # skein is slow to import and needed here alone

        return YarnRuntime()
    return _local(config, paths)


def _local(config: AmConfig, paths: JobPaths) -> Runtime:
    from afo_am.runtime.local import LocalRuntime

    job_dir = Path(parse(paths.dir).path)
    child_file = job_dir / CHILD_CONFIG
    json_file.write_private(child_file, child_config(config, paths))
    return LocalRuntime(job_dir, [config.python or sys.executable, "-P", "-m", "afo_child"], {CONFIG: str(child_file)})
