"""Names and addresses of this machine: how others reach it, how that is written, and where a server listens.

TensorFlow's servers listen on one address in place of all by a preloaded library (`afo/ops/listen/bind.cc`).
"""

import ipaddress
import os
import socket
from pathlib import Path
from typing import Literal

from afo.errors import Unsupported
from afo.ops import library
from afo.ops.library import LISTEN

#: "ADDRESS PORT" for the preloaded library; empty: a bind is left as it is.
LISTEN_VARIABLE = "AFO_LISTEN"
_LIBRARY = Path(library.__file__).parent / LISTEN


def advertised_host(runtime: Literal["local", "yarn"]) -> str:
    """Host for addresses that other tasks connect to, and to bind to: the narrowest that they can reach.

    `local`: the loopback address. `yarn`: the NodeManager's own name ($NM_HOST), as the rest of the cluster knows
    it; a name that resolves to loopback (a cluster on one machine) becomes that address.
    """
    if runtime == "local":
        return "127.0.0.1"
    name = os.environ.get("NM_HOST") or socket.getfqdn()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return name
    return address if ipaddress.ip_address(address).is_loopback else name


def host_port(host: str, port: int) -> str:
    """`host:port`; an IPv6 address in brackets, as URLs and gRPC want it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """The host of `host:port`, without brackets."""
    return address.rpartition(":")[0].strip("[]")


def listen_place(address: str) -> str:
    """`LISTEN_VARIABLE` for a server at `host:port`. Raises `Unsupported` where the host is not this machine."""
    own = ipaddress.ip_address(own_address(host_of(address)))
    port = address.rpartition(":")[2]
    return f"{own if own.version == 6 else f'::ffff:{own}'} {port}"


def extend_preload(already: str) -> str:
    """LD_PRELOAD with the library behind what is there `already`. Raises `Unsupported` where it cannot be preloaded."""
    if not _LIBRARY.exists():
        raise Unsupported(f"this installation of afo has no {_LIBRARY.name}; install the manylinux wheel, or with g++")
    if any(letter in str(_LIBRARY) for letter in " :"):
        raise Unsupported(f"the dynamic loader takes no path with a space or colon: {_LIBRARY}; install afo elsewhere")
    return ":".join(filter(None, [already, str(_LIBRARY)]))


def own_address(host: str) -> str:
    """The first address of `host` that is one of this machine's, IPv4 before IPv6."""
    try:
        found = {str(info[4][0]): info[0] for info in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise Unsupported(f"{host} cannot be resolved here: {error.strerror}") from error
    for address, family in sorted(found.items(), key=lambda entry: entry[1] != socket.AF_INET):
        if _is_own(address, family):
            return address
    raise Unsupported(f"{host} is {', '.join(found)}, and that is none of the addresses that this container has")


def _is_own(address: str, family: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
