"""Check that a packed environment stands alone: runs with an empty one and loads nothing from elsewhere."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, json

from afo.errors import Unsupported
from afo_client.packing.archive_layout import PYTHON
from afo_client.packing.libraries import is_glibc

_LIMIT_S = 300
_PROGRAM = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
with open("/proc/self/maps") as maps:
    mapped = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
print(json.dumps({"prefix": sys.prefix, "path": sys.path, "mapped": sorted(mapped)}))
"""


class _Report(Struct, frozen=True):
    prefix: str
    path: list[str]
    mapped: list[str]


def check(root: Path, modules: Sequence[str]) -> None:
    """Import `modules` by the interpreter below `root`. Raises `Unsupported`, saying what it cannot do without."""
    command = [str(root / PYTHON), "-I", "-B", "-c", _PROGRAM, *modules]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False, cwd="/",
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "PATH": os.defpath},
    )  # fmt: skip
    if done.returncode:
        words = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise Unsupported(f"the packed environment does not run by itself: {words[0]}; {_ADVICE}")
    report = json.decode(done.stdout.splitlines()[-1], type=_Report)
    foreign = _foreign(report, root)
    if foreign:
        raise Unsupported(f"the packed environment still uses {', '.join(foreign[:3])} of this machine; {_ADVICE}")


_ADVICE = "a Python from python.org, pyenv, uv or conda can be packed, one that a distribution has changed may not"


def _foreign(report: _Report, root: Path) -> list[str]:
    own = f"{root}/"
    paths = [path for path in (report.prefix, *report.path) if not f"{path}/".startswith(own)]
    libraries = [library for library in report.mapped if ".so" in library and not library.startswith(own)]
    return paths + [library for library in libraries if not is_glibc(os.path.basename(library))]
