"""A program of unit tests in C++: built by CMake as it is or under a sanitizer, and run."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BUILD_S = 420
#: A report ends the program, also where it would only be written; -fno-sanitize-recover does so for `undefined`.
SANITIZERS = {
    "ASAN_OPTIONS": "strict_string_checks=1:detect_stack_use_after_return=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


def find_cmake(whose: str, headers: Mapping[str, str]) -> str:
    """The CMake of this environment or of the system. Skips where something is missing, but fails in CI.

    `whose`: as in "the engine's"; `headers`: what is included, and how it is installed.
    """
    found = shutil.which("cmake", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    missing = [] if found else ["cmake"]
    if shutil.which("g++") is None:
        missing.append("g++")
    else:
        missing += [f"{header} ({how})" for header, how in headers.items() if not _has(header)]
    if missing:
        words = f"{whose} tests cannot be built: no {', no '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    assert found is not None
    return found


def build(cmake: str, sources: Path, work: Path, variant: str, name: str) -> Path:
    """The program `name`; what did not change is not compiled again. `variant`: plain, or what is to SANITIZE it."""
    options = ["-DCMAKE_CXX_COMPILER=g++", f"-DSANITIZE={'' if variant == 'plain' else variant}"]
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:  # another worker of pytest-xdist may build it, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            [cmake, "-S", str(sources), "-B", str(work), *options],
            [cmake, "--build", str(work), "--parallel", str(os.cpu_count() or 1)],
        ):
            done = run(command, timeout=BUILD_S)
            assert done.returncode == 0, done.stdout[-20000:]
    return work / name


def run_all(program: Path, variant: str, environment: Mapping[str, str], timeout: int) -> None:
    """Run all its tests. Ended by a signal, doctest says which test did not end by itself."""
    command = ["timeout", "--kill-after=10", str(timeout), *_same_addresses(variant), str(program)]
    done = run(command, {**SANITIZERS, **environment}, timeout=timeout + 20)
    assert done.returncode == 0, done.stdout[-20000:]


def run(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, timeout: float = 400
) -> "subprocess.CompletedProcess[str]":
    """A command with its output."""
    return subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


def _has(header: str) -> bool:
    return run(["g++", "-E", "-x", "c++", "-include", header, os.devnull, "-o", os.devnull]).returncode == 0


def _same_addresses(variant: str) -> list[str]:
    """A prefix that lays memory out alike each time: GCC's thread sanitizer does not start on some other layouts."""
    prefix = ["setarch", os.uname().machine, "--addr-no-randomize"]
    if variant != "thread" or shutil.which("setarch") is None or run([*prefix, "true"]).returncode:
        return []
    return prefix
