"""The rules for a node's firewall, loaded into a network of their own, and tried from both sides of them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fake_master import until

RULES = Path(__file__).parents[1] / "conf" / "firewall" / "afo.nft"
TASK_PORT, OTHER_PORT = 41000, 22000
LISTENS = f"""
import socket
held = [socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        for port in ({TASK_PORT}, {OTHER_PORT})]
print("up", flush=True)
input()
"""
CONNECTS = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[3])), timeout=10, source_address=(sys.argv[2], 0)).close()
except ConnectionRefusedError:
    print("refused")
else:
    print("connected")
"""
#: The node's address and prefix, one of the cluster's, and a stranger's; of each version of IP.
NETWORKS = {
    4: ("10.20.0.1/22", "10.20.0.2/22", "192.0.2.2/24", "192.0.2.1/24"),
    6: ("fd00:20::1/64", "fd00:20::2/64", "2001:db8::2/64", "2001:db8::1/64"),
}

#: Whether this kernel, and who we are in it, allow all that.
PROBE = ("unshare", "-n", "sh", "-c", "ip link add one type veth peer name two && nft add table inet probe")


@contextmanager
def network() -> Iterator[tuple[str, ...]]:
    """The beginning of a command in a network of its own."""
    holder = subprocess.Popen(["unshare", "-n", "sleep", "120"])
    try:
        own = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, "a network of its own")
        yield ("nsenter", "-t", str(holder.pid), "-n")
    finally:
        holder.kill()
        holder.wait()


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


@pytest.fixture
def node_and_others() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """A node, and machines beside it; skips where networks cannot be made."""
    missing = [name for name in ("ip", "nft", "nsenter", "unshare") if shutil.which(name) is None]
    if missing or subprocess.run(PROBE, capture_output=True, check=False).returncode:
        pytest.skip(f"takes root and a kernel with nftables; missing: {missing or 'the right to make networks'}")
    with network() as node, network() as others:
        run(*node, "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", others[2])
        for own, member, stranger, beside in NETWORKS.values():
            for side, address in ((node, own), (node, beside), (others, member), (others, stranger)):
                nodad = ["nodad"] if ":" in address else []
                run(*side, "ip", "address", "add", address, "dev", "cable", *nodad)
        for side, device in ((node, "lo"), (node, "cable"), (others, "cable")):
            run(*side, "ip", "link", "set", device, "up")
        yield node, others


def test_ports_of_containers_are_for_the_cluster_alone(
    node_and_others: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    node, others = node_and_others
    server = subprocess.Popen([*node, sys.executable, "-c", LISTENS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert server.stdout
        assert server.stdout.readline() == b"up\n"
        assert _reached(others) == {"member": "connected", "stranger": "connected", "another port": "connected"}
        for _ in range(2):  # loaded again, they take the place of what was there
            run(*node, "nft", "-f", str(RULES))
        assert _reached(others) == {"member": "connected", "stranger": "refused", "another port": "connected"}
        assert run(*node, sys.executable, "-c", CONNECTS, "127.0.0.1", "127.0.0.1", str(TASK_PORT)) == "connected"
    finally:
        server.communicate()


def _reached(others: tuple[str, ...]) -> dict[str, str]:
    """What becomes of connections to the node, which must be the same for both versions of IP."""
    answers = []
    for networks in NETWORKS.values():
        own, member, stranger, beside = (each.partition("/")[0] for each in networks)
        tries = {"member": (own, member, TASK_PORT), "stranger": (beside, stranger, TASK_PORT)}
        tries["another port"] = (beside, stranger, OTHER_PORT)
        answers.append(
            {
                name: run(*others, sys.executable, "-c", CONNECTS, target, source, str(port))
                for name, (target, source, port) in tries.items()
            }
        )
    assert answers[0] == answers[1]
    return answers[0]
