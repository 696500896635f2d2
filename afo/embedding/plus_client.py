"""This process's connections to parameter servers of our own, as a client of them."""

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from afo.errors import ClusterUnreachable, Unsupported
from afo.ops import library
from afo.rpc import tls

#: How long the making of a connection may take. Seconds.
_CONNECT_S = 10.0
_PROBLEM_BYTES = 1024


class PlusClient:
    """A client, known by its name to the operations that ask. Thread-safe."""

    def __init__(self, name: str, secret: str) -> None:
        """One of the same name in this process ends. Raises Unsupported where the library has no such client."""
        self.name = name
        end = tls.end_of(secret)
        self._call("open", end.authority, end.key, end.certificate, int(_CONNECT_S * 1000))

    def set_servers(self, store_version: int, addresses: Sequence[str]) -> None:
        """Who is asked from now on: questions of another version of the store end."""
        listed = (ctypes.c_char_p * len(addresses))(*(address.encode() for address in addresses))
        self._call("set_servers", store_version, listed, len(addresses))

    @property
    def losses(self) -> int:
        """How often a connection was lost, or not made: while that grows a server is gone, or cannot be reached."""
        return int(_functions().afo_psplus_losses(self.name.encode()))

    def close(self) -> None:
        """End all connections; what is asked ends by an error."""
        _functions().afo_psplus_close(self.name.encode())

    def _call(self, function: str, *arguments: Any) -> None:
        problem = ctypes.create_string_buffer(_PROBLEM_BYTES)
        call = getattr(_functions(), f"afo_psplus_{function}")
        if call(self.name.encode(), *arguments, problem, _PROBLEM_BYTES):
            raise ClusterUnreachable(f"cannot be a client of the parameter servers: {problem.value.decode()}")


@functools.cache
def _functions() -> Any:
    import tensorflow as tf

    library.load()
    found = ctypes.CDLL(str(library.find(Path(library.__file__).parent, tf.__version__)))
    if not hasattr(found, "afo_psplus_open"):
        raise Unsupported(
            "this installation of afo has no client of its own parameter servers: build afo again where libasio-dev and"
            " libssl-dev are"
        )
    text, number = ctypes.c_char_p, ctypes.c_int64
    found.afo_psplus_open.argtypes = (text, text, text, text, number, text, number)
    found.afo_psplus_set_servers.argtypes = (text, ctypes.c_uint64, ctypes.POINTER(text), number, text, number)
    found.afo_psplus_close.argtypes = found.afo_psplus_losses.argtypes = (text,)
    found.afo_psplus_losses.restype = ctypes.c_uint64
    found.afo_psplus_close.restype = None
    return found
