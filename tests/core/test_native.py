"""The engine's unit tests in C++: built, and run as they are and under sanitizers (tests/core/CMakeLists.txt)."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent
ROOT = SOURCES.parent.parent
#: The directory of each variant in build/native, and how many inputs of the fuzzer are replayed: one thread has no
#: races, and whatever else they find the others find sooner.
VARIANTS = {"plain": 1500, "address,undefined": 300, "thread": 30}
BUILD_S, RUN_S = 420, 400
#: A report ends the program, also where it would only be written; -fno-sanitize-recover does so for `undefined`.
SANITIZERS = {
    "ASAN_OPTIONS": "strict_string_checks=1:detect_stack_use_after_return=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


@pytest.fixture(scope="module")
def cmake() -> str:
    """The CMake of this environment or of the system. Skips where something is missing, but fails in CI."""
    found = shutil.which("cmake", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    missing = [] if found else ["cmake"]
    if shutil.which("g++") is None:
        missing.append("g++")
    elif _run(["g++", "-E", "-x", "c++", "-include", "doctest/doctest.h", os.devnull, "-o", os.devnull]).returncode:
        missing.append("doctest's headers (.ci/system-packages doctest)")
    if missing:
        words = f"the engine's tests cannot be built: no {', no '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    assert found is not None
    return found


@pytest.mark.timeout(BUILD_S + RUN_S + 60)
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param("plain", marks=pytest.mark.slow),
        "address,undefined",
        pytest.param("thread", marks=pytest.mark.slow),
    ],
)
def test_the_engine_does_what_its_tests_say(variant: str, cmake: str) -> None:
    program = _built(variant, cmake)
    inputs = {"AFO_FUZZ_INPUTS": str(VARIANTS[variant])}
    # Ended by a signal, doctest says which test did not end by itself.
    command = ["timeout", "--kill-after=10", str(RUN_S), *_same_addresses(variant), str(program)]
    done = _run(command, {**SANITIZERS, **inputs}, timeout=RUN_S + 20)
    assert done.returncode == 0, done.stdout[-20000:]


@pytest.mark.parametrize("named", ["v3", "v4", "of no processor"])
def test_an_instruction_set_can_be_named(named: str, cmake: str) -> None:
    program = _built("plain", cmake)
    # What is pooled and updated is the same on all of them.
    only = "--test-case=*AFO_ISA*,*for every rule*,*combined*,*slope*"
    done = _run([str(program), only], {"AFO_ISA": named})
    assert done.returncode == 0, done.stdout[-20000:]
    assert " 0 passed" not in done.stdout


def _built(variant: str, cmake: str) -> Path:
    """The program; what did not change is not compiled again."""
    work = ROOT / "build" / "native" / variant
    options = ["-DCMAKE_CXX_COMPILER=g++", f"-DSANITIZE={'' if variant == 'plain' else variant}"]
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:  # another worker of pytest-xdist may build it, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            [cmake, "-S", str(SOURCES), "-B", str(work), *options],
            [cmake, "--build", str(work), "--parallel", str(os.cpu_count() or 1)],
        ):
            done = _run(command, timeout=BUILD_S)
            assert done.returncode == 0, done.stdout[-20000:]
    return work / "core_tests"


def _same_addresses(variant: str) -> list[str]:
    """A prefix that lays memory out alike each time: GCC's thread sanitizer does not start on some other layouts."""
    prefix = ["setarch", os.uname().machine, "--addr-no-randomize"]
    if variant != "thread" or shutil.which("setarch") is None or _run([*prefix, "true"]).returncode:
        return []
    return prefix


def _run(
    command: Sequence[str], environment: dict[str, str] | None = None, timeout: float = RUN_S
) -> "subprocess.CompletedProcess[str]":
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
