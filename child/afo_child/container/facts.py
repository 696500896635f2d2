"""Facts about the container, told to the AM once, to be compared between machines."""

import importlib.metadata
import os
import platform
import resource
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from afo.protocol.task_environment import TaskEnvironment

_LIMITS = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC, "memlock": resource.RLIMIT_MEMLOCK}
#: The limits that may hold a container's memory, of control groups version 2 and 1; "max" or a huge number: none.
_CGROUP_FILES = {"": "memory.max", "memory": "memory.limit_in_bytes"}
_CGROUP_EVENTS = {"": "memory.events", "memory": "memory.oom_control"}
_CGROUP_ROOT = Path("/sys/fs/cgroup")


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


def memory_limit(cgroup: str | None = None) -> int | None:
    """Bytes that the control group allows, None without a limit. `cgroup`: content of /proc/self/cgroup."""
    values = [path.read_text().strip() for path in _cgroup_files(_CGROUP_FILES, cgroup)]
    limits = [int(value) for value in values if value.isdigit() and int(value) < 1 << 60]
    return min(limits, default=None)


def memory_kills(cgroup: str | None = None) -> int:
    """Processes of the control group that the kernel has killed for memory so far; 0 where it does not count them."""
    lines = [line.split() for path in _cgroup_files(_CGROUP_EVENTS, cgroup) for line in path.read_text().splitlines()]
    return sum(int(words[1]) for words in lines if len(words) == 2 and words[0] == "oom_kill" and words[1].isdigit())


def _cgroup_files(names: Mapping[str, str], cgroup: str | None) -> list[Path]:
    """The existing files `names` (by controller) of the control groups that this process is in."""
    text = Path("/proc/self/cgroup").read_text() if cgroup is None else cgroup
    found = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in names:
            found.append(_CGROUP_ROOT / controllers / path.lstrip("/") / names[controllers])
    return [path for path in found if os.access(path, os.R_OK)]


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
