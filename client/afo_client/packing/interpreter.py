"""The files of the running interpreter's own installation: its binary and the standard library."""

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from afo.errors import Unsupported
from afo_client.packing.archive_layout import DYNLOAD, PYTHON, STDLIB, PackedFile

#: Of no use on a node: tests, windows on a screen, the installer, what embedding and extending Python needs.
_LEFT_OUT = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "__pycache__"}
)


def binary() -> PackedFile:
    """The interpreter's binary. Raises `Unsupported` on a system whose binaries are not ELF."""
    if not sys.platform.startswith("linux"):
        raise Unsupported(f"an environment for YARN's nodes is packed on Linux, not on {sys.platform}")
    return PackedFile(PYTHON, os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]


def standard_library() -> list[PackedFile]:
    """Modules in Python and in C."""
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars={"platbase": sys.base_prefix})}
    return sorted({file for folder in folders for file in _files(Path(folder))})


def is_extension(file: PackedFile) -> bool:
    """True for a module in C of the standard library."""
    return file.target.startswith(f"{DYNLOAD}/") and ".so" in file.target


def _files(folder: Path) -> Iterator[PackedFile]:
    for directory, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("config-"))
        for name in sorted(names):
            if not name.endswith((".pyc", ".a")) and not name.startswith("_tkinter."):
                path = Path(directory, name)
                yield PackedFile(f"{STDLIB}/{path.relative_to(folder)}", str(path))
