"""What is lost, refused and cut between a client and parameter servers of our own."""

import itertools
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.embedding import TableGroup, plus_server  # noqa: E402
from afo.embedding.exchange import Asked, exchange_of, table_update  # noqa: E402
from afo.embedding.initializers import Initializer  # noqa: E402
from afo.embedding.plus_client import PlusClient  # noqa: E402
from afo.embedding.pull_push import value_of  # noqa: E402
from afo.embedding.server_tables import Table  # noqa: E402
from afo.job import Sgd  # noqa: E402
from afo.state.server_connections import is_lost_server  # noqa: E402
from cutting_proxy import cutting  # noqa: E402
from processor_build import require_parameter_server  # noqa: E402
from store_servers import StoreProcess, running  # noqa: E402

pytestmark = pytest.mark.tensorflow

SECRET = "a secret of this test alone"
KEYS = tf.constant([5, 6, -7, 2**62, -(2**62)], tf.int64)
TABLES = [Table("t", 3, Sgd(learning_rate=1.0), Initializer("constant", 0, value=0.0))]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def processes() -> Iterator[list[StoreProcess]]:
    require_parameter_server()
    with running(2, SECRET) as found:
        yield found


@contextmanager
def client_of(addresses: list[str], version: int = 1, secret: str = SECRET) -> Iterator[tuple[PlusClient, TableGroup]]:
    client = PlusClient(f"losses/{next(_numbers)}", secret)
    try:
        client.set_servers(version, addresses)
        yield client, TableGroup(["/device:CPU:0"] * len(addresses), tables=TABLES, asked=client.name)
    finally:
        client.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question is given up early, for those whose answer never comes."""
    for of in ("STEP", "CONTROL"):
        monkeypatch.setattr(plus_server, f"{of}_DEADLINE_S", 0.5)


@pytest.mark.usefixtures("soon")
def test_who_has_another_secret_is_refused(processes: list[StoreProcess]) -> None:
    with client_of([processes[0].serve()], secret="another") as (client, group):
        with pytest.raises(tf.errors.UnavailableError, match=r"was not reached within 500 ms: .*(certificate|hand)"):
            group.create()
        assert client.losses > 0


@pytest.mark.usefixtures("soon")
def test_who_accepts_and_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with client_of([address]) as (_, group), pytest.raises(tf.errors.UnavailableError, match=address):
            group.create()


def test_another_generation_is_refused(processes: list[StoreProcess]) -> None:
    address = processes[0].serve(store_version=2)
    with client_of([address], version=2) as (_, group):
        group.create()
    with client_of([address]) as (_, group):
        assert_lost(group.sizes, "about version 1 of the store")
    with client_of([address], version=3) as (following, newer), client_of([address], version=2) as (_, old):
        assert old.sizes()[0].sum() == 0
        assert newer.sizes()[0].sum() == 0  # by which the server learns of the generation
        assert_lost(old.sizes, "about version 2 of the store")
        following.set_servers(4, [address])
        assert newer.sizes()[0].sum() == 0


def test_questions_of_a_generation_that_ends_end(processes: list[StoreProcess]) -> None:
    with running(1, SECRET) as [lost], client_of([lost.serve()]) as (client, group), ThreadPoolExecutor() as pool:
        group.create()
        lost.pause()
        asked = pool.submit(group.sizes)
        client.set_servers(2, [processes[0].serve(2)])
        # The latter where the thread asked too late.
        assert_lost(asked.result, "version 2 now|no embedding table 0")
        group.create()
        assert group.sizes()[0].sum() == 0


def test_what_a_server_does_not_have_is_lost(processes: list[StoreProcess]) -> None:
    with client_of([processes[0].serve()]) as (_, group):
        assert_lost(group.sizes, "table 0")
    assert_lost(group.sizes, "connected to no server")


def test_what_was_given_to_a_server_that_came_back_empty_is_lost() -> None:
    with running(1, SECRET) as [first], running(1, SECRET) as [second], ThreadPoolExecutor() as pool:
        address = first.serve()
        with client_of([address]) as (client, group):
            group.create()
            exchange = exchange_of(group, [Asked(0, KEYS)], insert=True)
            group.as_servers.pull([exchange])
            first.pause()
            given = pool.submit(exchange.apply, [tf.ones_like(exchange.values[0])], step=1, schedule=1.0)
            read = pool.submit(group.sizes)
            # Both were sent, as far as anybody can tell: the kernel takes what a process does not read.
            losses = client.losses
            first.kill()
            second.serve(port=int(address.rpartition(":")[2]))
            assert_lost(given.result, "not know|does not remember|unknown")
            assert_lost(read.result, "table 0")
            assert client.losses > losses


def test_messages_may_be_long(processes: list[StoreProcess]) -> None:
    """Of more bytes than the transport takes by itself, there and back: the dense weights of a server are one."""
    size = 18 << 20
    with client_of([processes[0].serve()]) as (_, group):
        server = group.link(0)
        server.trace(
            lambda store: store.call("create_dense", size=size, rule="sgd", slots=0, option_names=[], options=[])
        )()
        reset = server.trace(lambda store, given: store.call("reset_dense", given), tf.TensorSpec([None], tf.float32))
        given = tf.range(size, dtype=tf.float32)
        reset(given)
        weights = server.trace(lambda store: store.call("read_dense"))()
        np.testing.assert_array_equal(weights, given)


def test_a_client_leaves_nothing_behind(processes: list[StoreProcess]) -> None:
    address = processes[0].serve()

    def use() -> None:
        with client_of([address]) as (_, group):
            group.create()
            group.sizes()

    use()
    before = [len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task")]
    for _ in range(5):
        use()
    await_true(lambda: [len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task")] <= before)


UPDATES, SEED_LIMIT = 300, 1 << 32


def test_each_update_is_done_once_however_often_connections_are_cut(processes: list[StoreProcess]) -> None:
    seed = secrets.randbelow(SEED_LIMIT)
    print(f"seed {seed}")
    with (
        cutting([each.serve() for each in processes], seed, most=60_000) as proxies,
        client_of([proxy.address for proxy in proxies]) as (_, group),
    ):
        group.create()
        for server in range(2):
            begin(group, server)
        step = traced_step(group)
        found = [[int(each) for each in step(tf.constant(number, tf.int64))] for number in range(UPDATES)]
        assert found == [[number + 1] * 2 for number in range(UPDATES)]
        assert sum(proxy.cuts for proxy in proxies) > 10
        exchange = exchange_of(group, [Asked(0, KEYS)], insert=False)
        group.as_servers.pull([exchange])
        np.testing.assert_array_equal(exchange.pool()[0], np.full([5, 3], UPDATES))
        for server in range(2):
            assert state_of(group, server) == (UPDATES, [[1, UPDATES - 1, 7]], [UPDATES] * 4)


def begin(group: TableGroup, server: int) -> None:
    """Dense weights and a record of zeros."""
    options = {"learning_rate": 1.0}

    def create(store: Any) -> None:
        store.call(
            "create_dense", size=4, rule="sgd", slots=0, option_names=list(options), options=list(options.values())
        )

    group.link(server).trace(create)()


class Learn:
    """An update (`afo.embedding.pull_push`): +1 on all dense weights, and where a split is read to."""

    def __init__(self, group: TableGroup, number: Any) -> None:
        self._group, self._number, self.steps = group, number, {}

    def given_to(self, server: int) -> list[Any]:
        position = tf.stack([[tf.constant(1, tf.int64), self._number, tf.constant(7, tf.int64)]])
        return [-tf.ones([4]), tf.constant(1.0), tf.constant([0], tf.int64), position]

    def apply(self, server: int, given: Any) -> list[Any]:
        gradient, rate, splits, positions = given
        store = self._group.store(server)
        store.call("apply_dense", gradient, rate)
        self.steps[server] = store.call("advance", splits, positions, [])
        return [self.steps[server]]


def traced_step(group: TableGroup) -> Callable[[Any], Any]:
    """+1 on the rows of all keys, too; returns the step of each server."""

    def step(number: Any) -> Any:
        exchange = exchange_of(group, [Asked(0, KEYS)], insert=True)
        group.as_servers.pull([exchange])
        # After what was read, whatever it was.
        gradients = [0 * values - 1 for values in exchange.values]
        learn = Learn(group, number)
        group.as_servers.push([table_update(exchange, gradients, step=number, schedule=1.0)], [learn])
        return [value_of(learn.steps[server]) for server in range(2)]

    traced: Callable[[Any], Any] = tf.function(step, [tf.TensorSpec([], tf.int64)], autograph=False)
    return traced


def state_of(group: TableGroup, server: int) -> Any:
    """Step, positions and dense weights."""

    def read(store: Any, splits: Any) -> Any:
        return (*store.call("read_progress", splits, T=[]), store.call("read_dense"))

    found = group.link(server).trace(read, tf.TensorSpec([None], tf.int64))(tf.constant([0], tf.int64))
    step, positions, weights = (each.numpy().tolist() for each in found)
    return step, positions, weights


def assert_lost(question: Callable[[], Any], words: str) -> None:
    with pytest.raises(tf.errors.OpError, match=words) as raised:
        question()
    assert is_lost_server(raised.value)


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
