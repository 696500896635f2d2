"""Under which name or address other machines reach this one, and how that is written beside a port."""

import ipaddress
import os
import socket
from typing import Literal


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
