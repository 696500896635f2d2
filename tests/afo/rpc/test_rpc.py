"""The protocol over real gRPC on loopback."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import grpc
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from afo.errors import ClusterUnreachable, GenerationOver, PermissionDenied, ProtocolError
from afo.rpc import messages as m
from afo.rpc import tls, wire
from afo.rpc.client import AmAddress, AmClient, write_address
from afo.rpc.master import Master
from afo.rpc.server import Handler, RpcServer
from ipv6 import NEEDS_IPV6

SECRET = wire.new_secret()
TASK = m.TaskId(role="worker", index=1, attempt=2)


class Wiretap:
    """Passes on what two ends of a connection say, and keeps it."""

    def __init__(self, port: int) -> None:
        self.heard = {"client": bytearray(), "server": bytearray()}
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> "Wiretap":
        self._threads[0].start()
        return self

    def __exit__(self, *_raised: object) -> None:
        for end in (self._listening, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listening.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [client, server]
                for ends in ((client, server, "client"), (server, client, "server")):
                    self._threads.append(threading.Thread(target=self._pass_on, args=ends))
                    self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket, who: str) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.heard[who] += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


class Echo:
    """Answers split requests and counts them."""

    def __init__(self) -> None:
        self.asked: list[m.SplitRequest] = []

    def next_split(self, request: m.SplitRequest) -> m.SplitReply:
        self.asked.append(request)
        if request.generation == 0:
            raise GenerationOver("generation 0 has ended")
        if request.task.attempt == 9:
            raise ProtocolError("attempt 9 has ended")
        return m.SplitReply(state="lease", split=7, epoch=1, url="file:///a b", resume=True)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def server(echo: Echo) -> Iterator[RpcServer]:
    server = RpcServer({"NextSplit": echo.next_split}, SECRET, "127.0.0.1")
    server.start()
    yield server
    server.stop(0)


@pytest.fixture
def address_url(tmp_path: Path, server: RpcServer) -> str:
    url = str(tmp_path / "address")
    write_address(url, AmAddress(address=server.address, incarnation=1))
    return url


def master(address_url: str, secret: str = SECRET, patience_s: float = 10.0) -> Master:
    return Master(AmClient(address_url, secret, patience_s=patience_s))


def test_a_call_carries_request_and_reply(address_url: str, echo: Echo) -> None:
    caller = master(address_url)
    reply = caller.next_split(m.SplitRequest(task=TASK, generation=3))
    caller.close()
    assert reply == m.SplitReply(state="lease", split=7, epoch=1, url="file:///a b", resume=True)
    assert echo.asked == [m.SplitRequest(task=TASK, generation=3)]


@pytest.mark.parametrize("secret", ["", "wrong", wire.new_secret()], ids=["none", "a word", "another job's"])
def test_without_the_secret_nothing_is_answered(address_url: str, echo: Echo, secret: str) -> None:
    caller = master(address_url, secret, patience_s=0.0)
    with pytest.raises(PermissionDenied, match="does not hold this job's secret"):
        caller.next_split(m.SplitRequest(task=TASK, generation=3))
    caller.close()
    assert not echo.asked


def test_who_has_no_certificate_is_not_served(server: RpcServer, echo: Echo) -> None:
    """Not even one who believes this server."""
    believing = grpc.ssl_channel_credentials(tls.end_of(SECRET).authority)
    encrypted = grpc.secure_channel(server.address, believing, tls.OPTIONS)
    for channel in (encrypted, grpc.insecure_channel(server.address)):
        with channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{wire.SERVICE}/NextSplit")(wire.encode(m.Empty()), timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not echo.asked


@pytest.mark.parametrize("host", ["127.0.0.3", pytest.param("::1", marks=NEEDS_IPV6)])
def test_it_listens_where_it_says_and_on_no_other_interface(host: str, tmp_path: Path, echo: Echo) -> None:
    server = RpcServer({"NextSplit": echo.next_split}, SECRET, host)
    server.start()
    write_address(str(tmp_path / "address"), AmAddress(address=server.address, incarnation=1))
    caller = master(str(tmp_path / "address"))
    assert caller.next_split(m.SplitRequest(task=TASK, generation=3)).split == 7
    caller.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
    server.stop(0)


def test_an_address_of_another_machine_cannot_be_listened_on(echo: Echo) -> None:
    with pytest.raises(ClusterUnreachable, match=r"cannot listen on 198\.51\.100\.7:0"):
        RpcServer({"NextSplit": echo.next_split}, SECRET, "198.51.100.7")


def test_another_job_s_master_is_not_spoken_to(tmp_path: Path, echo: Echo) -> None:
    """A port that was ours may be another's by now: its address is read anew, and nothing is sent to it."""
    stranger = RpcServer({"NextSplit": echo.next_split}, wire.new_secret(), "127.0.0.1")
    stranger.start()
    ours = RpcServer({"NextSplit": echo.next_split}, SECRET, "127.0.0.1")
    ours.start()
    url = str(tmp_path / "address")
    write_address(url, AmAddress(address=stranger.address, incarnation=1))
    caller = master(url)
    publish = threading.Timer(0.5, write_address, (url, AmAddress(address=ours.address, incarnation=2)))
    publish.start()
    assert caller.next_split(m.SplitRequest(task=TASK, generation=3)).split == 7
    publish.join()
    caller.close()
    assert len(echo.asked) == 1
    stranger.stop(0)
    ours.stop(0)


@pytest.mark.parametrize("sending", ["server", "client"])
def test_neither_the_secret_nor_a_message_can_be_read_on_the_way(tmp_path: Path, echo: Echo, sending: str) -> None:
    server = RpcServer({"NextSplit": echo.next_split}, SECRET, "127.0.0.1")
    server.start()
    with Wiretap(server.port) as tap:
        url = str(tmp_path / "address")
        write_address(url, AmAddress(address=f"127.0.0.1:{tap.port}", incarnation=1))
        caller = master(url)
        assert caller.next_split(m.SplitRequest(task=TASK, generation=3)).url == "file:///a b"
        caller.close()
    server.stop(0)
    seen = tap.heard[sending]
    assert len(seen) > 500, "a handshake at least"
    assert not any(word in seen for word in (SECRET.encode(), b"file:///a b", b"worker", b"NextSplit"))


def test_an_error_of_the_other_side_arrives_as_itself(address_url: str) -> None:
    caller = master(address_url)
    with pytest.raises(GenerationOver, match="generation 0 has ended"):
        caller.next_split(m.SplitRequest(task=TASK, generation=0))
    with pytest.raises(ProtocolError, match="attempt 9 has ended") as refusal:
        caller.next_split(m.SplitRequest(task=replace(TASK, attempt=9), generation=1))
    assert not isinstance(refusal.value, GenerationOver)
    caller.close()


def test_a_restarted_server_on_another_port_is_found(address_url: str, server: RpcServer, echo: Echo) -> None:
    caller = master(address_url)
    caller.next_split(m.SplitRequest(task=TASK, generation=1))
    server.stop(0)
    other = RpcServer({"NextSplit": echo.next_split}, SECRET, "127.0.0.1")
    other.start()
    write_address(address_url, AmAddress(address=other.address, incarnation=2))
    assert caller.next_split(m.SplitRequest(task=TASK, generation=2)).split == 7
    caller.close()
    other.stop(0)


def test_who_was_told_the_address_reads_no_file_while_somebody_answers_there(
    tmp_path: Path, server: RpcServer, echo: Echo
) -> None:
    url, known = str(tmp_path / "address"), AmAddress(server.address, 1)
    caller = Master(AmClient(url, SECRET, known=AmAddress.of_text(known.text())))
    assert caller.next_split(m.SplitRequest(task=TASK, generation=1)).split == 7
    server.stop(0)
    other = RpcServer({"NextSplit": echo.next_split}, SECRET, "127.0.0.1")
    other.start()
    write_address(url, AmAddress(address=other.address, incarnation=2))
    assert caller.next_split(m.SplitRequest(task=TASK, generation=2)).split == 7
    caller.close()
    other.stop(0)


@pytest.mark.parametrize("text", ["", "host:1", "x@host:1", "@host:1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="no address of an Application Master"):
        AmAddress.of_text(text)


def test_a_connection_that_is_dropped_during_a_call_costs_only_a_repetition(address_url: str) -> None:
    client = AmClient(address_url, SECRET)
    caller = Master(client)
    request = m.SplitRequest(task=TASK, generation=3)
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(lambda: [caller.next_split(request).split for _ in range(100)]) for _ in range(6)]
        for _ in range(200):
            client.close()  # as another thread's failed call, or a new address, does
            time.sleep(0.005)
    client.close()
    assert [call.result() for call in calls] == [[7] * 100] * 6


def test_nobody_there_is_an_unreachable_cluster_within_the_patience(tmp_path: Path) -> None:
    caller = master(str(tmp_path / "nothing"), patience_s=0.3)
    with pytest.raises(ClusterUnreachable, match="no Application Master has published its address"):
        caller.status()
    caller.close()


def test_a_malformed_body_is_refused_by_name(server: RpcServer) -> None:
    with grpc.secure_channel(server.address, tls.channel_credentials(SECRET), tls.OPTIONS) as channel:
        call = channel.unary_unary(f"/{wire.SERVICE}/NextSplit")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xc1", timeout=5)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "malformed SplitRequest" in caught.value.details()


def long_text(size: int, others: int) -> str:
    """Makes a message of `size` bytes, of which all but this text has `others`; in msgpack such a text has 5 more."""
    return "x" * (size - others - len(msgspec.msgpack.encode("x" * 70_000)) + 70_000)


@pytest.mark.parametrize("size", [(4 << 20) + 1, 4 << 20])
def test_a_message_has_at_most_4_mib_both_ways(tmp_path: Path, size: int) -> None:
    request = m.KillRequest(user="ann", reason="")
    reply = m.SplitReply(state="lease", url="")
    request = replace(request, reason=long_text(size, len(wire.encode(request)) - 1))
    reply = replace(reply, url=long_text(size, len(wire.encode(reply)) - 1))
    assert {len(wire.encode(each)) for each in (request, reply)} == {size}
    killed: list[m.Message] = []
    handlers: dict[str, Handler] = {
        "Kill": lambda asked: killed.append(asked) or m.Empty(), "NextSplit": lambda _asked: reply
    }  # fmt: skip
    server = RpcServer(handlers, SECRET, "127.0.0.1")
    server.start()
    write_address(str(tmp_path / "address"), AmAddress(server.address, 1))
    with closing(AmClient(str(tmp_path / "address"), SECRET, patience_s=10.0)) as client:
        refused = pytest.raises(ProtocolError, match=rf"(?i)larger than max \({size} vs\. {4 << 20}\)")
        with refused if size > 4 << 20 else nullcontext():
            client.call("Kill", request)
        with refused if size > 4 << 20 else nullcontext():
            assert client.call("NextSplit", m.SplitRequest(task=TASK, generation=1)) == reply
    server.stop(0)
    assert killed == ([] if size > 4 << 20 else [request])


@given(st.binary(max_size=200), st.sampled_from(sorted(wire.METHODS)))
def test_any_bytes_decode_or_are_a_protocol_error(body: bytes, method: str) -> None:
    request = wire.METHODS[method][0]
    try:
        decoded: object = wire.decode(body, request)
    except ProtocolError as error:
        decoded = error
    assert isinstance(decoded, request) or request.__name__ in str(decoded)


def test_unknown_fields_are_refused() -> None:
    body = msgspec.msgpack.encode({"task": msgspec.to_builtins(TASK), "generation": 1, "more": 1})
    with pytest.raises(ProtocolError, match="more"):
        wire.decode(body, m.SplitRequest)


def test_an_empty_or_missing_secret_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name, words in (("empty", "is empty"), ("none", "cannot read")):
        with pytest.raises(PermissionDenied, match=words):
            wire.read_secret(tmp_path / name)


def test_an_address_file_that_cannot_be_read_for_a_while_costs_a_wait(address_url: str, echo: Echo) -> None:
    whole = Path(address_url).read_bytes()
    Path(address_url).write_bytes(whole[:5])
    caller = master(address_url)
    threading.Timer(0.5, Path(address_url).write_bytes, [whole]).start()
    assert caller.next_split(m.SplitRequest(task=TASK, generation=3)).split == 7
    caller.close()


def strangers(server: RpcServer, number: int) -> list[socket.socket]:
    """Connections that never finish a handshake."""
    return [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(number)]


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"], ids=["nothing", "half of it"])
def test_who_proves_nothing_is_hung_up_on(echo: Echo, said: bytes) -> None:
    server = RpcServer({"NextSplit": echo.next_split}, SECRET, "127.0.0.1", handshake_s=0.5)
    server.start()
    (one,) = strangers(server, 1)
    one.sendall(said)
    assert one.recv(1) == b""
    one.close()
    server.stop(0)


def test_strangers_take_so_many_connections_and_only_until_their_handshake_is_due(tmp_path: Path, echo: Echo) -> None:
    server = RpcServer({"NextSplit": echo.next_split}, SECRET, "127.0.0.1", connections=8, handshake_s=3.0)
    server.start()
    write_address(str(tmp_path / "address"), AmAddress(address=server.address, incarnation=1))
    known, newcomer = master(str(tmp_path / "address")), master(str(tmp_path / "address"), patience_s=30)
    request = m.SplitRequest(task=TASK, generation=3)
    assert known.next_split(request).split == 7
    opened = strangers(server, 9)
    assert opened[-1].recv(1) == b"", "one too many is closed at once"
    assert known.next_split(request).split == 7, "who is known stays so"
    assert opened[0].recv(1) == b""
    assert newcomer.next_split(request).split == 7
    for each in (*opened, known, newcomer):
        each.close()
    server.stop(0)
