"""Which binds the preloaded library narrows, in a real process, and which it leaves alone."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from afo.errors import Unsupported
from afo.process import hosts

#: Binds and listens as told, twice for a second socket beside it (SO_REUSEPORT); prints where that came to be.
BINDS = """
import socket, sys
family, address, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for _ in range(2):
    one = socket.socket(family)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind((address, port))
    one.listen()
    print(*one.getsockname()[:2])
"""

SERVES = """
import sys
import tensorflow as tf
from afo.state.server_connections import connect
if sys.argv[1] == "server":
    cluster = tf.train.ClusterSpec({"ps": [sys.argv[2]]})
    server = tf.distribute.Server(cluster, job_name="ps", task_index=0)
else:
    keeper = connect((sys.argv[2],))
    with tf.device("/job:ps/task:0"):
        print(tf.reduce_sum(tf.ones([1000])).numpy())
print("up", flush=True)
input()
"""


@pytest.fixture
def port() -> int:
    """One that nobody has just now."""
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def bound(family: int, address: str, port: int, place: str) -> list[str]:
    """Where a process with the library listens that binds `address`."""
    variables = {**os.environ, "LD_PRELOAD": hosts.extend_preload(""), hosts.LISTEN_VARIABLE: place}
    done = subprocess.run(
        [sys.executable, "-c", BINDS, str(int(family)), address, str(port)],
        env=variables, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("family", "everywhere", "own"),
    [(socket.AF_INET, "0.0.0.0", "127.0.0.1"), (socket.AF_INET6, "::", "::ffff:127.0.0.1")],
)
def test_the_port_of_the_task_is_bound_on_its_address_alone(family: int, everywhere: str, own: str, port: int) -> None:
    assert bound(family, everywhere, port, hosts.listen_place(f"127.0.0.1:{port}")) == [f"{own} {port}"] * 2


@pytest.mark.tensorflow
def test_tensorflow_s_servers_listen_on_one_address_and_find_each_other(port: int) -> None:
    """A parameter server's as the Child starts it, and that of a worker, which chooses its port itself."""
    address = f"127.0.0.1:{port}"
    own = {"LD_PRELOAD": hosts.extend_preload(""), "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    with ExitStack() as running:
        for role, variables in (("server", {hosts.LISTEN_VARIABLE: hosts.listen_place(address)}), ("worker", {})):
            process = subprocess.Popen(
                [sys.executable, "-c", SERVES, role, address], env={**os.environ, **own, **variables},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            running.callback(process.communicate)
            assert process.stdout
            said = [process.stdout.readline().strip() for _ in range(2 if role == "worker" else 1)]
            assert said == {"server": ["up"], "worker": ["1000.0", "up"]}[role]
            connections = psutil.Process(process.pid).net_connections(kind="inet")
            listening = {each.laddr.ip.removeprefix("::ffff:") for each in connections if each.status == "LISTEN"}
            assert listening == {"127.0.0.1"}


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_not_for_sockets_of_ipv4(port: int) -> None:
    place = hosts.listen_place(f"[::1]:{port}")
    assert bound(socket.AF_INET6, "::", port, place) == [f"::1 {port}"] * 2
    assert bound(socket.AF_INET, "0.0.0.0", port, place) == [f"0.0.0.0 {port}"] * 2


def test_ports_and_addresses_of_a_user_s_own_are_left_alone(port: int) -> None:
    other = hosts.listen_place(f"127.0.0.1:{port % 60000 + 1}")
    assert bound(socket.AF_INET, "0.0.0.0", port, other) == [f"0.0.0.0 {port}"] * 2
    assert bound(socket.AF_INET6, "::", port, other) == [f":: {port}"] * 2
    own = hosts.listen_place(f"127.0.0.1:{port}")
    assert bound(socket.AF_INET, "127.0.0.2", port, own) == [f"127.0.0.2 {port}"] * 2


@pytest.mark.parametrize(
    "place", ["", " ", "nonsense", "::1", "::1 ", "::1 0", "::1 -1", "::1 70000", "10.0.0.1 80", f"{'1' * 60} 80"]
)
def test_what_is_no_place_changes_nothing(place: str, port: int) -> None:
    assert bound(socket.AF_INET6, "::", port, place) == [f":: {port}"] * 2


def test_the_user_s_allocator_comes_first() -> None:
    assert hosts.extend_preload("libjemalloc.so.2").startswith("libjemalloc.so.2:/")


def test_a_name_of_another_machine_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: elsewhere)
    with pytest.raises(Unsupported, match=r"node-7 is 192\.0\.2\.1"):
        hosts.listen_place("node-7:80")


def test_of_the_addresses_of_a_name_the_machine_s_own_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    families = {"192.0.2.1": socket.AF_INET, "::1": socket.AF_INET6, "127.0.0.3": socket.AF_INET}
    found = [(family, socket.SOCK_STREAM, 6, "", (address, 0)) for address, family in families.items()]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert hosts.listen_place("node-7:80") == "::ffff:127.0.0.3 80"


def test_where_it_cannot_be_preloaded_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = tmp_path / "a b.so"
    split.touch()
    for library, words in {split: "no path with a space", tmp_path / "c.so": "has no c.so"}.items():
        monkeypatch.setattr(hosts, "_LIBRARY", library)
        with pytest.raises(Unsupported, match=words):
            hosts.extend_preload("")
