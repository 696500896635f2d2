"""Layout of a packed environment; that of any Python, so that it finds itself."""

import os
import shutil
import sys
from pathlib import Path

from msgspec import Struct

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
STDLIB = f"{sys.platlibdir}/python{VERSION}"
SITE = f"{STDLIB}/site-packages"
DYNLOAD = f"{STDLIB}/lib-dynload"
#: Shared libraries of the packing machine, glibc's own excepted.
SYSTEM = "lib/system"
PYTHON = "bin/python"
PYTHON_NAMES = ("bin/python3", f"bin/python{VERSION}")
MANIFEST = "environment.json"


class PackedFile(Struct, frozen=True, order=True):
    """A file of the environment: its path there, and where it is now."""

    target: str
    source: str


def put(file: PackedFile, root: Path, *, own: bool = False) -> Path:
    """Place a file below `root`, by a link where the disk allows it; `own` makes a copy, which may be changed."""
    path = root / file.target
    path.parent.mkdir(parents=True, exist_ok=True)
    source = os.path.realpath(file.source)
    if not own:
        try:
            os.link(source, path)
            return path
        except OSError:
            pass  # another disk, or a file of another user: a copy does as well
    shutil.copy(source, path)
    path.chmod(path.stat().st_mode | 0o200)
    return path
