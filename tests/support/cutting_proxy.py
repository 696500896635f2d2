"""A proxy of TCP connections that cuts each one after some number of bytes, anywhere in them."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CuttingProxy:
    """One on 127.0.0.1, in a thread of its own."""

    def __init__(self, target: str, seed: int, most: int) -> None:
        """`target`: host:port. `most`: a connection is cut after 1 to so many bytes, both ways together."""
        self._host, _, port = target.rpartition(":")
        self._port, self._random, self._most = int(port), random.Random(seed), most
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self._thread = threading.Thread(target=self._loop.run_forever, name="cutting proxy")
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        #: How many connections were cut.
        self.cuts = 0

    def close(self) -> None:
        """Ends all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        left = [self._random.randint(1, self._most)]
        writers = writer, there_writer
        pumps = [
            asyncio.create_task(self._pump(*ends, left)) for ends in ((reader, there_writer), (there_reader, writer))
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            self.cuts += not left[0]
        finally:
            for pump in pumps:
                pump.cancel()
            for each in writers:
                each.transport.abort()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]) -> None:
        """Until an end closes, or `left`, which both ways share, is 0."""
        with suppress(OSError):
            while left[0] and (passed := await reader.read(self._random.randint(1, 4096))):
                writer.write(passed[: left[0]])
                left[0] -= min(left[0], len(passed))
                await writer.drain()


@contextmanager
def cutting(targets: list[str], seed: int, most: int) -> Iterator[list[CuttingProxy]]:
    """One before each of the targets."""
    proxies = [CuttingProxy(target, seed + number, most) for number, target in enumerate(targets)]
    try:
        yield proxies
    finally:
        for proxy in proxies:
            proxy.close()
