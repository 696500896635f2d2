"""The shared library of the operations: found, checked against this machine, loaded once a process."""

import functools
import re
import sys
from pathlib import Path
from typing import Any

from afo.errors import Unsupported

#: The library that a task's process preloads (`afo.process.hosts`).
LISTEN = "_afo_listen.so"
#: What x86-64-v3 means in the words of /proc/cpuinfo, where it goes beyond every 64-bit server of this century.
_CPU_FLAGS = ("avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_NAME = re.compile(r"^_afo_ops\.tensorflow-(\d+\.\d+)\.so$")
_REBUILD = (
    "build afo again beside it from its sources (`pip install --no-build-isolation --no-deps --force-reinstall"
    " DIRECTORY`), where g++, CMake and hatchling are"
)


def file_name(tensorflow_version: str) -> str:
    """Name of the library for a version of TensorFlow: its binary interface holds within a minor version."""
    return f"_afo_ops.tensorflow-{'.'.join(tensorflow_version.split('.')[:2])}.so"


def find(directory: Path, tensorflow_version: str) -> Path:
    """The library for this TensorFlow. Raises Unsupported where there is none, or one for another version alone."""
    path = directory / file_name(tensorflow_version)
    if path.exists():
        return path
    others = [match.group(1) for file in sorted(directory.glob("*.so")) if (match := _NAME.match(file.name))]
    if others:
        raise Unsupported(
            f"afo's operations were built for TensorFlow {', '.join(others)}, and TensorFlow {tensorflow_version} is"
            f" installed; install TensorFlow {others[-1]}, or {_REBUILD}"
        )
    raise Unsupported(
        f"this installation of afo has no native operations ({path.name} is missing); install the manylinux wheel,"
        f" or {_REBUILD}"
    )


def check_cpu(cpuinfo: str) -> None:
    """Raises Unsupported for a processor below x86-64-v3, on which the library would die by SIGILL."""
    line = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    flags = set(line.partition(":")[2].split())
    missing = [flag for flag in _CPU_FLAGS if flag not in flags]
    if missing:
        raise Unsupported(
            f"afo's operations need a processor of x86-64-v3 (Haswell of 2013, Zen of 2017, or later); this one lacks"
            f" {', '.join(missing)}"
        )


@functools.cache
def load() -> Any:
    """The module of the operations (`afo_unique` and so on). To be called before the first graph reaches this process.

    Raises Unsupported where they cannot run: another TensorFlow, an older processor, or never built.
    """
    import tensorflow as tf

    # First: on another processor there is nothing that could be built.
    check_cpu(Path("/proc/cpuinfo").read_text())
    path = find(Path(__file__).parent, tf.__version__)
    try:
        return tf.load_op_library(str(path))
    except tf.errors.NotFoundError as error:
        raise Unsupported(
            f"TensorFlow {tf.__version__} cannot load {path.name}: {error.message}; {_REBUILD}"
        ) from error


def load_for_job() -> None:
    """As `load`, in a process of a job. Raises Unsupported, with what a job can do instead."""
    try:
        load()
    except Unsupported as error:
        raise Unsupported(f"{error}; or train without them: `model.embedding: {{storage: dense}}`") from error


@functools.cache
def load_if_present() -> Any | None:
    """As `load`; None where they cannot run, for callers that can do without them. Says why on stderr, once."""
    try:
        return load()
    except Unsupported as error:
        print(f"reading data takes longer without afo's operations: {error}", file=sys.stderr)
        return None


def installed_tensorflow() -> str | None:
    """Version of the TensorFlow that is installed, without importing it."""
    import importlib.metadata  # slow to import, and needed here alone

    for name in ("tensorflow-cpu", "tensorflow"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def available() -> Path:
    """The library that `load` would load. Raises Unsupported where there is none, or no TensorFlow; imports neither."""
    version = installed_tensorflow()
    if version is None:
        raise Unsupported("TensorFlow is not installed, and afo's operations are a part of it")
    check_cpu(Path("/proc/cpuinfo").read_text())
    return find(Path(__file__).parent, version)
