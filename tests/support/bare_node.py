"""NodeManagers that see no Python: they run in a mount namespace in which every one of this machine is hidden."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo_client.hadoop import processes

_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
REPOSITORY = Path(__file__).parents[2]


def hiding() -> str:
    """Shell commands that hide the interpreters, their libraries and this repository, from this process on."""
    folders = {sys.base_prefix, sys.prefix, str(REPOSITORY)} - {"/usr", "/usr/local"}
    for prefix in ("/usr/lib", "/usr/local/lib"):
        folders |= {str(path) for path in Path(prefix).glob("python3*") if path.is_dir()}
    lines = [f"mount -t tmpfs none {shlex.quote(folder)}" for folder in sorted(folders, key=len, reverse=True)]
    lines += [f"mount --bind /dev/null {shlex.quote(program)}" for program in sorted(set(_interpreters(folders)))]
    return " && ".join(lines)


def in_bare_namespace(*command: str) -> list[str]:
    """The command line that runs `command` where there is no Python; see `require_namespaces`."""
    return [shutil.which("unshare") or "unshare", "--mount", "sh", "-c", f'{hiding()} && exec "$@"', "sh", *command]


def require_namespaces() -> None:
    """Skips where this user may not mount."""
    done = subprocess.run(in_bare_namespace("true"), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no mount namespaces for this user: {done.stderr.strip()}")


def hide_from_nodes(patch: pytest.MonkeyPatch) -> None:
    """Every NodeManager that is started from now on, and so every container of it, sees no Python."""
    plain = processes.java_command

    def command(java_home: Path, class_path: str, main_class: str, *options: str) -> list[str]:
        java = plain(java_home, class_path, main_class, *options)
        if main_class != _NODE_MANAGER:
            return java
        return in_bare_namespace(*java)

    patch.setattr(processes, "java_command", command)


def _interpreters(hidden: set[str]) -> Iterator[str]:
    for folder in {"/usr/bin", "/usr/local/bin", "/bin", *os.environ.get("PATH", "").split(os.pathsep)}:
        for path in Path(folder).glob("python3*") if folder else ():
            real = os.path.realpath(path)
            if os.access(real, os.X_OK) and not any(real.startswith(f"{each}/") for each in hidden):
                yield real
