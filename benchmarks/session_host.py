"""The C++ host of session_host.cc, built on its first use."""

import ctypes
import importlib.util
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).with_suffix(".cc")
LIBRARY = SOURCE.parents[1] / "build" / "bench" / "libsession_host.so"


def open_host(exported: str, threads: int) -> Callable[[Sequence[bytes]], Callable[[], Any]]:
    """A function that prepares a request of records, and returns one that answers it."""
    library = ctypes.CDLL(str(_build()))
    library.host_load.restype = ctypes.c_void_p
    host = ctypes.c_void_p(library.host_load(exported.encode(), threads))
    if not host:
        raise RuntimeError(f"the C++ host does not load {exported}")

    def prepare(records: Sequence[bytes]) -> Callable[[], Any]:
        count = len(records)
        data, sizes = (ctypes.c_char_p * count)(*records), (ctypes.c_int * count)(*map(len, records))
        answers = np.empty(count, np.float32)

        def answer() -> Any:
            if library.host_run(host, data, sizes, count, answers.ctypes.data_as(ctypes.c_void_p)):
                raise RuntimeError("the C++ host has no answer")
            return answers

        return answer

    return prepare


def _build() -> Path:
    found = importlib.util.find_spec("tensorflow")
    assert found is not None
    assert found.submodule_search_locations
    tensorflow = Path(found.submodule_search_locations[0])
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < SOURCE.stat().st_mtime:
        LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        libraries = [tensorflow / "libtensorflow_cc.so.2", tensorflow / "libtensorflow_framework.so.2"]
        options = [
            "-O2",
            "-std=c++20",
            "-w",
            "-shared",
            "-fPIC",
            "-DEIGEN_MAX_ALIGN_BYTES=64",
            f"-I{tensorflow}/include",
        ]
        linked = [*map(str, libraries), f"-Wl,-rpath,{tensorflow}"]
        subprocess.run(["g++", *options, str(SOURCE), *linked, "-o", str(LIBRARY)], check=True)
    return LIBRARY
