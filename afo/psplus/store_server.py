"""A parameter server of our own in this process: its store, which is empty at first, and its threads."""

import ctypes

from afo.errors import ClusterUnreachable
from afo.ops import own_tables
from afo.process.hosts import host_of
from afo.psplus import server_library
from afo.rpc import tls

_PROBLEM_BYTES = 1024


class StoreServer:
    """Answers holders of a job's secret, from now on until `stop`. The desk's requests are `afo.ops.own_tables`'."""

    def __init__(self, address: str, secret: str, store_version: int, loops: int) -> None:
        """`address`: host and port, 0 for any. `loops`: threads. Raises ClusterUnreachable where it cannot listen."""
        self._library = server_library.load()
        own_tables.use(self._library)
        end, problem = tls.end_of(secret), ctypes.create_string_buffer(_PROBLEM_BYTES)
        host, port = host_of(address), int(address.rpartition(":")[2])
        self._server = self._library.afo_psplus_serve(
            host.encode(), port, loops, store_version, end.authority, end.key, end.certificate, problem, _PROBLEM_BYTES
        )
        if not self._server:
            raise ClusterUnreachable(f"no parameter server at {address}: {problem.value.decode()}")

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._library.afo_psplus_port(self._server))

    def stop(self) -> None:
        """Close all connections; the store goes with them."""
        self._library.afo_psplus_stop(self._server)
