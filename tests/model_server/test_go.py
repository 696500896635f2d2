"""The model server's own tests in Go, with the toolchain that built it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processor_build import require_model_server

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "model_server"
#: As .ci/build-model-server has them, whose packages are compiled already then.
FLAGS = ["-trimpath", "-tags", "netgo,osusergo"]


def go(*words: str, timeout: float = 500, **environment: str) -> str:
    """What a Go command says; fails with it where the command does."""
    require_model_server()
    program = Path(sys.executable).parent / "go"
    own = {"GOFLAGS": "", "GOTOOLCHAIN": "local", "CC": str(ROOT / "build" / "cc-glibc-2.27"), **environment}
    done = subprocess.run(
        [program, *words], cwd=SOURCES, env={**os.environ, **own}, capture_output=True, text=True, timeout=timeout,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_tests_pass() -> None:
    """Vetted, too: `go test` does both."""
    assert "ok" in go("test", *FLAGS, "./...")


def test_its_files_are_formatted() -> None:
    require_model_server()
    formatter = Path(go("env", "GOROOT").strip()) / "bin" / "gofmt"
    done = subprocess.run([formatter, "-l", SOURCES], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""


@pytest.mark.slow
def test_what_runs_side_by_side_does_not_race() -> None:
    """The race detector takes the system's C compiler: it brings objects that are made for that one."""
    names = ("access", "concurrency", "control", "grpcapi", "hdfs", "models", "restapi", "rollout")
    packages = [f"./internal/{name}" for name in names]
    assert "ok" in go("test", "-race", "-tags", "netgo,osusergo", *packages, CC="gcc")
