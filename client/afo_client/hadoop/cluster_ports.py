"""Ports that nobody listens on."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

from afo.errors import ClusterUnreachable

#: Below the range from which Linux takes ports for outgoing connections (32768 and up).
_FIRST, _LAST = 12_000, 32_000


def is_free(host: str, port: int) -> bool:
    """Whether a daemon could listen there now. Raises OSError where the host is no address of this machine."""
    with socket.socket() as probe:
        # As Java's servers do; otherwise the last connections of a daemon that has just ended would be in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def find_taken(addresses: Iterable[tuple[str, int]]) -> list[str]:
    """Those of the addresses on which no daemon could listen, as host:port."""
    return [f"{host}:{port}" for host, port in addresses if not is_free(host, port)]


def find_base(count: int) -> int:
    """The first of `count` consecutive ports free on this machine, at random, so that clusters do not meet.

    Raises ClusterUnreachable when none is found in 200 tries.
    """
    for _ in range(200):
        base = random.randrange(_FIRST, _LAST - count, 10)
        if all(is_free("0.0.0.0", port) for port in range(base, base + count)):
            return base
    raise ClusterUnreachable(f"found no {count} consecutive free ports between {_FIRST} and {_LAST}; give --port-base")
