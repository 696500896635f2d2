"""The shared library of the parameter server: found, checked against this machine, loaded once a process."""

import ctypes
import functools
from pathlib import Path

from afo.errors import Unsupported
from afo.ops.library import check_cpu

NAME = "_afo_server.so"


@functools.cache
def load() -> ctypes.CDLL:
    """The library, its calls with their types. It needs no TensorFlow, and meets none that is there.

    Raises Unsupported where it was not built, or cannot run: an older processor, an older system.
    """
    found = available()
    try:
        return _typed(ctypes.CDLL(str(found)))
    except OSError as error:
        raise Unsupported(
            f"this system cannot load {found}: {error}; build afo again here, from its sources"
        ) from error


def path(directory: Path) -> Path:
    """Of the library. Raises Unsupported where it was not built."""
    found = directory / NAME
    if not found.exists():
        raise Unsupported(
            f"this installation of afo has no parameter server of its own ({NAME} is missing); install the manylinux"
            " wheel, or build afo again where g++, CMake, libasio-dev and libssl-dev (asio-devel, openssl-devel and"
            " openssl-static) are"
        )
    return found


def available() -> Path:
    """The library that `load` would load, without doing so. Raises Unsupported where there is none."""
    # First: on another processor there is nothing that could be built.
    check_cpu(Path("/proc/cpuinfo").read_text())
    return path(Path(__file__).parent)


def versions() -> str:
    """Of what the library was built with: OpenSSL, Asio, the compiler. Raises Unsupported as `load` does."""
    text: bytes = load().afo_psplus_versions()
    return text.decode()


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    library.afo_psplus_versions.restype = text = ctypes.c_char_p
    server, number, version = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64
    library.afo_psplus_serve.restype = server
    library.afo_psplus_serve.argtypes = (text, ctypes.c_uint16, number, version, text, text, text, text, number)
    library.afo_psplus_port.restype, library.afo_psplus_port.argtypes = ctypes.c_uint16, (server,)
    library.afo_psplus_stop.restype, library.afo_psplus_stop.argtypes = None, (server,)
    return library
