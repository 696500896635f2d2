"""Proxies that hold back what passes through them, each way for as long as is said: a network with a latency.

As a program: `delaying_proxy.py HOST:PORT...` prints the port of each one's proxy on a line, and then takes a number of
seconds from each line of its standard input.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

BLOCK = 1 << 20


class Delay:
    """What all proxies have in common. Bytes that are under way keep the delay that they came with."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on all that comes, in order, to its end."""
        loop = asyncio.get_running_loop()
        passing: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def let_go() -> None:
            while True:
                due, block = await passing.get()
                if (left := due - loop.time()) > 0:
                    await asyncio.sleep(left)
                if not block:
                    writer.close()
                    return
                writer.write(block)
                await writer.drain()

        letting_go = asyncio.create_task(let_go())
        try:
            while block := await reader.read(BLOCK):
                passing.put_nowait((loop.time() + self.seconds, block))
        except ConnectionError:
            pass
        passing.put_nowait((loop.time() + self.seconds, b""))
        await letting_go

    async def serve(self, address: str) -> int:
        """A proxy of an address; returns its port."""
        host, _, port = address.rpartition(":")

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, to_there = await asyncio.open_connection(host, int(port))
            await asyncio.gather(self.pump(reader, to_there), self.pump(there, writer), return_exceptions=True)

        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])


async def _run(addresses: Sequence[str]) -> None:
    delay = Delay()
    for address in addresses:
        print(await delay.serve(address), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        delay.seconds = float(line)
        print(line.strip(), flush=True)


class Network:
    """Proxies in a process of their own; `addresses` in the order of what they stand before."""

    def __init__(self, process: "subprocess.Popen[str]", count: int) -> None:
        self._process = process
        self.addresses = tuple(f"127.0.0.1:{self._answer()}" for _ in range(count))

    def hold_back(self, seconds: float) -> None:
        """From now on, each way."""
        print(seconds, file=self._process.stdin, flush=True)
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"the proxy has ended with {self._process.wait()}")
        return line.strip()


@contextmanager
def delaying(addresses: Sequence[str]) -> Iterator[Network]:
    """A network before these addresses, without delay at first."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, __file__, *addresses], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Network(process, len(addresses))
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1:]))
