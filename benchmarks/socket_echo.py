"""Bytes there and back over a bare socket, a side of a benchmark (`sides`): the least that client and server take.

The other end is a process of its own, and neither looks at what it gets. Case `exchange`: each of SIZES, how many bytes
go and how many come back, one after another. `socket_echo.py SIZES --threads N`; no encryption, no frames.
"""

import json
import os
import socket
import subprocess
import sys

from sides import serve, timed

_LENGTHS = 16


def answer(descriptor: int) -> None:
    """Be the other end: read as many bytes as a question's head says, and send as many as it asks for."""
    with socket.socket(fileno=descriptor) as connection:
        while True:
            head = received(connection, _LENGTHS)
            if not head:
                return
            there, back = (int.from_bytes(head[at : at + 8], "little") for at in (0, 8))
            received(connection, there)
            connection.sendall(_sent(back))


def received(connection: socket.socket, count: int) -> bytearray:
    """So many bytes, or none where the other end is gone."""
    buffer, at = _room(count), 0
    while at < count:
        if not (got := connection.recv_into(memoryview(buffer)[at:count])):
            return bytearray()
        at += got
    return buffer


_rooms: dict[int, bytearray] = {}


def _room(count: int) -> bytearray:
    return _rooms.setdefault(count, bytearray(count))


def _sent(count: int) -> bytearray:
    return _rooms.setdefault(-count, bytearray(count))


def main() -> None:
    """Serve the case."""
    sizes = json.loads(sys.argv[1])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = socket.create_connection(listening.getsockname())
        there, _ = listening.accept()
    for each in (here, there):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    command = [sys.executable, __file__, "answer", str(there.fileno())]
    with here, subprocess.Popen(command, pass_fds=[there.fileno()]) as other:
        there.close()

        def exchange(_: int) -> None:
            for out, back in sizes:
                here.sendall(out.to_bytes(8, "little") + back.to_bytes(8, "little"))
                here.sendall(_sent(out))
                received(here, back)

        serve(
            {"exchange": lambda calls: timed(calls, exchange)},
            {"resident_before": 0, "resident_after": 0, "other": other.pid, "own": os.getpid()},
        )


if __name__ == "__main__":
    answer(int(sys.argv[2])) if sys.argv[1] == "answer" else main()
