"""Facts about the container, told to the AM once, to be compared between machines."""

import importlib.metadata
import os
import platform
import resource
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from afo.process.memory import memory_limit
from afo.protocol.task_environment import TaskEnvironment

_LIMITS = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC, "memlock": resource.RLIMIT_MEMLOCK}


def environment_report(inherited: Mapping[str, str], passed: TaskEnvironment, work_dir: Path) -> dict[str, str]:
    """Names and values, no secrets. `passed` is what the TensorFlow process will get."""
    return {
        "python": platform.python_version(),
        "python_executable": sys.executable,
        "python_prefix": sys.prefix,
        "tensorflow": _tensorflow_version(),
        "glibc": platform.libc_ver()[1] or "unknown",
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": str(os.cpu_count() or 0),
        "cores_usable": str(len(os.sched_getaffinity(0))),
        "memory_limit": str(memory_limit() or "none"),
        **{f"ulimit_{name}": _limit(number) for name, number in _LIMITS.items()},
        "disk_free": str(shutil.disk_usage(work_dir).free),
        "malloc_arena_max_given": inherited.get("MALLOC_ARENA_MAX", "unset"),
        "malloc_arena_max_passed": passed.variables.get("MALLOC_ARENA_MAX", "unset"),
        "ld_preload_passed": passed.variables.get("LD_PRELOAD", inherited.get("LD_PRELOAD", "unset")),
        "omp_num_threads": passed.variables["OMP_NUM_THREADS"],
        "tf_intraop_threads": passed.variables["TF_NUM_INTRAOP_THREADS"],
        "tf_interop_threads": passed.variables["TF_NUM_INTEROP_THREADS"],
    }


def _tensorflow_version() -> str:
    """Of the package's metadata: importing TensorFlow would cost seconds and hundreds of megabytes."""
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "none"


def _limit(number: int) -> str:
    soft, _ = resource.getrlimit(number)
    return "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
