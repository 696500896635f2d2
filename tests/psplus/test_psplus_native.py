"""The transport's unit tests in C++: built, and run as they are and under sanitizers (tests/psplus/CMakeLists.txt)."""

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
VARIANTS = ("plain", "address,undefined", "thread")
HEADERS = {"doctest/doctest.h": "doctest-dev", "asio.hpp": "libasio-dev", "openssl/ssl.h": "libssl-dev"}
#: Meant for another OpenSSL, whose module is not there.
CONFIGURATION = """openssl_conf = first
[first]
providers = providers
[providers]
another = module
[module]
activate = 1
module = /not/there.so
"""
BUILD_S, RUN_S = 420, 300
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
    else:
        missing += [f"{header} ({package})" for header, package in HEADERS.items() if not _has(header)]
    if missing:
        words = f"the transport's tests cannot be built: no {', no '.join(missing)}"
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
        pytest.param("address,undefined", marks=pytest.mark.slow),
        "thread",
    ],
)
def test_the_transport_does_what_its_tests_say(variant: str, cmake: str, tmp_path: Path) -> None:
    program = _built(variant, cmake)
    configuration = tmp_path / "openssl.cnf"
    configuration.write_text(CONFIGURATION)
    # Ended by a signal, doctest says which test did not end by itself. AFO_PSPLUS_SOAK=10 has ten times the seeds.
    command = ["timeout", "--kill-after=10", str(RUN_S), *_same_addresses(variant), str(program)]
    done = _run(command, {**SANITIZERS, "OPENSSL_CONF": str(configuration)}, timeout=RUN_S + 20)
    assert done.returncode == 0, done.stdout[-20000:]


def _has(header: str) -> bool:
    return _run(["g++", "-E", "-x", "c++", "-include", header, os.devnull, "-o", os.devnull]).returncode == 0


def _built(variant: str, cmake: str) -> Path:
    """The program; what did not change is not compiled again."""
    work = ROOT / "build" / "psplus" / variant
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
    return work / "psplus_tests"


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
