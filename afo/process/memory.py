"""Memory that the machine has and the control group of a process allows."""

import os
from collections.abc import Mapping
from pathlib import Path

#: The limits that may hold a container's memory, of control groups version 2 and 1; "max" or a huge number: none.
_CGROUP_FILES = {"": "memory.max", "memory": "memory.limit_in_bytes"}
_CGROUP_EVENTS = {"": "memory.events", "memory": "memory.oom_control"}
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/meminfo")


def available_memory() -> int:
    """Bytes that a process may take without another's giving way, and within its control group."""
    lines = _MACHINE.read_text().splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    return min(free, memory_limit() or free)


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
