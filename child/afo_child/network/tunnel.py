"""TLS tunnel between TensorFlow's servers, for holders of the job's secret alone.

    TensorFlow -> `proxy`, on loopback: CONNECT host:port -> TLS -> host:port, `enter` of that task's Child
               -> 127.100.0.1:port, where its TensorFlow listens and nowhere else

gRPC asks a proxy for every connection, so addresses in the cluster stay those of hosts, and nobody needs to know who
lies behind a tunnel. A connection that fails is not tried again here: TensorFlow reports it, and restarts go by that.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

from afo.errors import ClusterUnreachable
from afo.process import hosts
from afo.process.hosts import host_of, host_port
from afo.rpc import tls

#: Where TensorFlow's server of a task listens: any address of loopback but the host's own.
INNER = "127.100.0.1"
_PIECE = 256 * 1024
_HEAD_S, _CONNECT_S, _STOP_S = 10.0, 20.0, 5.0
_REFUSED = b"HTTP/1.1 502 Bad Gateway\r\n\r\n"
_T = TypeVar("_T")
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LOG = logging.getLogger(__name__)


class Tunnel:
    """Both ends of one task, in a thread of its own; `close` it. Raises `ClusterUnreachable` where no port is free."""

    def __init__(self, secret: str, host: str) -> None:
        self._host, self._address = host, hosts.own_address(host)
        self._outward, self._inward = tls.client_context(secret), tls.server_context(secret)
        self._entrance: asyncio.Server | None = None
        self._transports = WeakSet[asyncio.WriteTransport]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tunnel", daemon=True)
        self._thread.start()
        self._exit = self._call(self._listen(self._leave, INNER, 0))
        #: `host:port` of the proxy for TensorFlow's connections.
        self.proxy = host_port(INNER, self._exit.sockets[0].getsockname()[1])

    def enter(self, port: int = 0) -> str:
        """Let holders of the secret in to `INNER:port`, 0 for any; in place of the last one. Returns `host:port`."""
        return self._call(self._enter(port))

    def close(self) -> None:
        """Ends all connections."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except OSError as error:
            raise ClusterUnreachable(f"no tunnel for TensorFlow's connections: {error}") from error

    async def _enter(self, port: int) -> str:
        if self._entrance is not None:
            self._entrance.close()

        async def come_in(*streams: Any) -> None:
            await self._join(streams, await asyncio.open_connection(INNER, port))

        self._entrance = await self._listen(come_in, self._address, port, reuse_port=True, ssl=self._inward)
        port = self._entrance.sockets[0].getsockname()[1]
        return host_port(self._host, port)

    async def _leave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The proxy's side: one request, then bytes."""
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
        words = head.split(b" ", 2)
        if words[0] != b"CONNECT" or b":" not in words[1]:
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
            return
        address = words[1].decode("ascii", "replace")
        try:
            there = await asyncio.wait_for(self._connect(address), _CONNECT_S)
        except (OSError, TimeoutError) as error:
            _LOG.info("no connection to %s: %s", address, error)
            writer.write(_REFUSED)
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._join((reader, writer), there)

    async def _connect(self, address: str) -> _Streams:
        port = int(address.rpartition(":")[2])
        return await asyncio.open_connection(host_of(address), port, ssl=self._outward, server_hostname=tls.NAME)

    async def _listen(
        self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], host: str, port: int,
        **options: Any,
    ) -> asyncio.Server:  # fmt: skip
        async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._transports.add(writer.transport)
            try:
                await serve(reader, writer)
            except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError) as error:
                _LOG.info("a connection of TensorFlow's ended: %s", error)
            except asyncio.CancelledError:
                # By `_stop`. Python 3.11's own callback of such a task fails where it ends as cancelled.
                _LOG.debug("a connection of TensorFlow's ends with the tunnel")
            finally:
                writer.close()

        return await asyncio.start_server(serve_connection, host, port, limit=_PIECE, **options)

    async def _join(self, one: _Streams, other: _Streams) -> None:
        """Passes bytes on both ways until one side ends; then both do."""
        ways = [asyncio.ensure_future(_pass(one[0], other[1])), asyncio.ensure_future(_pass(other[0], one[1]))]
        self._transports.add(other[1].transport)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            other[1].close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _stop(self) -> None:
        for server in (self._exit, self._entrance):
            if server is not None:
                server.close()
        # Not those of `serve_connection` alone: a connection that is being made has a task of asyncio's, and may go on
        # to make another one. What is cancelled before it has begun would close nothing.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await _turns()
            for task in others:
                task.cancel()
            # `wait_for` of Python 3.11 may lose that; what goes on then meets the end of its stream.
            self._abort()
            await asyncio.gather(*others, return_exceptions=True)
        self._abort()
        await _turns()

    def _abort(self) -> None:
        for transport in self._transports:
            transport.abort()


async def _turns() -> None:
    """Until a task has begun, its transport as well, and that of TLS above it; or these have closed likewise."""
    for _ in range(3):
        await asyncio.sleep(0)


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_PIECE):
        target.write(piece)
        await target.drain()
