"""Tables on parameter servers of our own, in processes of theirs: to the bit those of this process."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.embedding import SlotMap, TableGroup  # noqa: E402
from afo.embedding.checkpoint import TableSaver, restore  # noqa: E402
from afo.embedding.exchange import Asked, exchange_of, table_update  # noqa: E402
from afo.embedding.initializers import Initializer  # noqa: E402
from afo.embedding.plus_client import PlusClient  # noqa: E402
from afo.embedding.pooled_exchange import pooled_exchange_of  # noqa: E402
from afo.embedding.pull_push import Narrowed, value_of  # noqa: E402
from afo.embedding.server_tables import Table  # noqa: E402
from afo.job import (  # noqa: E402
    Adagrad,
    AdagradDecay,
    Adam,
    AdamW,
    Eviction,
    Filter,
    Ftrl,
    GroupFtrl,
    Momentum,
    OptimizerChoice,
    RMSprop,
    RowClipping,
    Sgd,
)
from afo.optimizers import rule_of  # noqa: E402
from afo.state import variables  # noqa: E402
from afo.state.parameters import dense_vector, parameters_of, state_variable  # noqa: E402
from afo.state.server_state import server_state, step_state  # noqa: E402
from processor_build import require_parameter_server  # noqa: E402
from store_servers import StoreProcess, running  # noqa: E402

pytestmark = pytest.mark.tensorflow

SIZE = 500
SECRET = "a secret of this test alone"
KEYS = np.arange(-150, 150) * 7919
RULES = (
    Adagrad(), AdagradDecay(decay_steps=2), Adam(), AdamW(), Ftrl(l1=0.01, l2=0.01), Ftrl(forgets_first=True),
    GroupFtrl(l21=0.01), Momentum(), Momentum(nesterov=True), RMSprop(), Sgd(),
)  # fmt: skip
#: One for each rule; in turns of both types, with clipping and without.
TABLES = tuple(
    Table(
        f"t{number}", 3 + number % 3, rule, Initializer("normal", number, stddev=1.0),
        clipping=RowClipping(value=0.5, norm=0.7) if number % 3 == 1 else RowClipping(),
        value_dtype="bfloat16" if number % 2 else "float32",
    )
    for number, rule in enumerate(RULES)
)  # fmt: skip
DENSE = {
    "sgd": OptimizerChoice(sgd=Sgd()), "momentum": OptimizerChoice(momentum=Momentum(nesterov=True)),
    "adagrad": OptimizerChoice(adagrad=Adagrad()), "adam": OptimizerChoice(adam=Adam()),
    "adamw": OptimizerChoice(adamw=AdamW()), "ftrl": OptimizerChoice(ftrl=Ftrl(l1=0.001, l2=0.01)),
    "rmsprop": OptimizerChoice(rmsprop=RMSprop()),
}  # fmt: skip
_numbers = itertools.count()


class Sides:
    """The same tables in this process and over servers."""

    def __init__(self, client: str, tables: Sequence[Table]) -> None:
        # Ranges that are not equal: nothing holds of them alone.
        slots = SlotMap((0, 20000))
        self.here, self.there = (
            TableGroup(["/device:CPU:0"] * 2, f"plus/{next(_numbers)}", tables=tables, slots=slots, asked=asked)
            for asked in ("", client)
        )
        self.both = self.here, self.there
        for group in self.both:
            group.create()
        self.random = np.random.default_rng(1)

    def step(self, asked: Sequence[Asked], number: int, *, pooled: bool = False, wire: Any = tf.float32) -> None:
        """A step of training with both; all that comes of it is the same."""
        of = pooled_exchange_of if pooled else exchange_of
        exchanges = [of(group, asked, insert=True, wire=wire) for group in self.both]
        for group, exchange in zip(self.both, exchanges, strict=True):
            group.as_servers.pull([exchange])
        for values in zip(*(exchange.values for exchange in exchanges), strict=True):
            assert_same(*values)
        for sums in zip(*(exchange.pool() for exchange in exchanges), strict=True):
            assert_same(*sums)
        gradients = [tf.cast(self.random.normal(size=each.shape), each.dtype) for each in exchanges[0].values]
        for exchange in exchanges:
            exchange.apply(gradients, step=number, schedule=1 / (1 + number))

    def train(self, steps: int, **given: Any) -> None:
        """Steps of all tables, each with some of the keys."""
        for number in range(steps):
            self.step([Asked(table, self.some_keys()) for table in range(len(self.here.tables))], number, **given)

    def some_keys(self, count: int = 100) -> Any:
        """Some of them more than once."""
        return tf.constant(self.random.choice(KEYS, count), tf.int64)

    def assert_equal(self, directory: Path) -> list[str]:
        """Whatever a checkpoint has of them: rows and slots, steps and counts, what filters know."""
        urls = [str(directory / f"{next(_numbers)}") for _ in self.both]
        manifests = [TableSaver(group).save(url) for group, url in zip(self.both, urls, strict=True)]
        assert_same_files(*urls)
        for one, other in zip(*(group.sizes() for group in self.both), strict=True):
            np.testing.assert_array_equal(one, other)
        return manifests


def assert_same(one: Any, other: Any) -> None:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.numpy().tobytes() == other.numpy().tobytes()


def assert_same_files(one: str, other: str) -> None:
    files = [{each.name: each.read_bytes() for each in Path(url).iterdir()} for url in (one, other)]
    assert sorted(files[0]) == sorted(files[1])
    assert [name for name, content in files[0].items() if content != files[1][name]] == []


@pytest.fixture(scope="module")
def processes() -> Iterator[list[StoreProcess]]:
    require_parameter_server()
    with running(2, SECRET) as found:
        yield found


@pytest.fixture
def client(processes: list[StoreProcess]) -> Iterator[str]:
    """The name of a client of two servers, whose stores are empty."""
    found = PlusClient(f"test/{next(_numbers)}", SECRET)
    found.set_servers(1, [each.serve() for each in processes])
    yield found.name
    found.close()


@pytest.mark.parametrize("wire", [tf.float32, tf.bfloat16])
def test_every_rule_gives_the_same_rows(client: str, tmp_path: Path, wire: Any) -> None:
    sides = Sides(client, TABLES)
    sides.train(6, wire=wire)
    sides.assert_equal(tmp_path)


@pytest.mark.parametrize("wire", [tf.float32, tf.bfloat16])
def test_servers_pool_the_same_sums(client: str, tmp_path: Path, wire: Any) -> None:
    sides = Sides(client, TABLES[:4])
    bags = tf.constant([0, 3, 3, 40, 100], tf.int64)
    for number in range(4):
        weights = tf.constant(sides.random.normal(size=100), tf.float32)
        asked = [
            Asked(0, sides.some_keys(), bags, combiner="mean"),
            Asked(2, sides.some_keys(), bags, weights, combiner="sqrtn", max_norm=0.5),
            Asked(0, sides.some_keys(), bags, weights, combiner="sum"),
            Asked(3, sides.some_keys(), combiner=None),
        ]
        sides.step(asked, number, pooled=True, wire=wire)
        sides.step(asked, number, wire=wire)
    sides.assert_equal(tmp_path)


def test_a_traced_step_is_the_same_one(client: str, tmp_path: Path) -> None:
    """Several features of several tables, two exchanges a message, as many steps as the function is called."""
    sides = Sides(client, TABLES[:3])

    def step_of(group: TableGroup) -> Any:
        def step(ids: Any, number: Any) -> Any:
            exchanges = [
                exchange_of(group, [Asked(0, ids), Asked(2, ids[:9]), Asked(0, ids[5:])], insert=True),
                pooled_exchange_of(
                    group, [Asked(1, ids, tf.constant([0, 7, 20], tf.int64), None, "mean")], insert=True
                ),
            ]
            group.as_servers.pull(exchanges)
            gradients = [[tf.sin(values) for values in each.values] for each in exchanges]
            updates = [
                table_update(each, given, step=number, schedule=0.5)
                for each, given in zip(exchanges, gradients, strict=True)
            ]
            group.as_servers.push(updates[:1], updates[1:])
            return [each.pool() for each in exchanges]

        ids = tf.TensorSpec([20], tf.int64)
        return tf.function(step, [ids, tf.TensorSpec([], tf.int64)], autograph=False)

    steps = [step_of(group) for group in sides.both]
    for number in range(5):
        ids = sides.some_keys(20)
        found = [tf.nest.flatten(step(ids, tf.constant(number, tf.int64))) for step in steps]
        for values in zip(*found, strict=True):
            assert_same(*values)
    sides.assert_equal(tmp_path)


def test_filters_admit_the_same_keys(client: str, tmp_path: Path) -> None:
    filters = (
        Filter(min_count=3, default_value=0.5), Filter(min_count=3, max_element_size=200), Filter(probability=0.3),
    )  # fmt: skip
    tables = [
        Table(f"t{number}", 4, Adam(), Initializer("uniform", 5, minval=-1.0, maxval=1.0), filter=each)
        for number, each in enumerate(filters)
    ]
    sides = Sides(client, tables)
    sides.train(5)
    keys = sides.here.sizes()[0].sum(axis=0)
    assert all(0 < count < len(KEYS) for count in keys)
    sides.assert_equal(tmp_path)


def test_the_same_rows_are_evicted_and_removed(client: str, tmp_path: Path) -> None:
    policies = (
        Eviction(unused_steps=2), Eviction(l2_weight=0.5), Eviction(capacity=60), Eviction(unused_time="1h"),
        Eviction(),
    )  # fmt: skip
    tables = [
        Table(f"t{number}", 4, Sgd(), Initializer("normal", 1, stddev=0.4), eviction=each)
        for number, each in enumerate(policies)
    ]
    sides = Sides(client, tables)
    sides.train(6)
    evicted, others = (group.evict(6, 1, step_ago=lambda _: 3) for group in sides.both)
    np.testing.assert_array_equal(evicted, others)
    assert all(count > 0 for count in evicted[:4])
    removed = {group.remove(4, KEYS[::3]) for group in sides.both}
    assert len(removed) == 1
    assert removed != {0}
    sides.train(2)
    sides.assert_equal(tmp_path)


def test_checkpoints_and_deltas_of_one_are_read_by_the_other(client: str, tmp_path: Path) -> None:
    sides = Sides(client, TABLES[:4])
    savers = [TableSaver(group) for group in sides.both]
    for number in range(3):
        sides.train(2)
        for group in sides.both:
            group.remove(1, KEYS[number::5])
        urls = [str(tmp_path / side / f"{number}") for side in ("here", "there")]
        manifests = [saver.save(url, incremental=number > 0) for saver, url in zip(savers, urls, strict=True)]
        assert_same_files(*urls)
    assert all(saver.is_delta for saver in savers)
    sides.train(1)
    # Each goes on from what the other has written.
    rows = {restore(group, url) for group, url in zip(sides.both, reversed(manifests), strict=True)}
    assert len(rows) == 1
    assert rows != {0}
    sides.train(2)
    sides.assert_equal(tmp_path)


@pytest.mark.parametrize("rule", DENSE)
def test_dense_weights_and_progress_are_the_same(client: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "_kept_here", [True])
    sides = [parameters(rule, asked) for asked in ("", client)]
    states = [server_state(side, 0) for side in sides]
    learners = [learner(side) for side in sides]
    for state in states:
        state.reset_weights(np.linspace(-1, 1, SIZE, dtype=np.float32))
        positions = np.tile(np.array([-1, 0, 0]), (3, 1))
        state.write_records({"step": 0, "positions": positions, "statistics": np.arange(6.0).reshape(3, 2)})
    random = np.random.default_rng(1)
    for step in range(5):
        gradient = tf.constant(random.normal(size=SIZE), tf.float32)
        split, position = tf.constant([step % 3], tf.int64), tf.constant([[step, 7, -step]], tf.int64)
        found = [learn(gradient, tf.constant(1 / (1 + step)), split, position) for learn in learners]
        for values in zip(*map(tf.nest.flatten, found), strict=True):
            assert_same(*values)
        if step == 2:
            saved = [(state.read_weights(), state.read_records()) for state in states]
            assert_same_arrays(*saved)
            for state, (weights, records) in zip(states, reversed(saved), strict=True):
                state.write_weights(weights)
                state.write_records(records)
    assert_same_arrays(*((state.read_weights(), state.read_records()) for state in states))
    assert {state.read_step() for state in states} == {5}
    assert {state.read_position(1) for state in states} == {(4, 7, -4)}


def parameters(rule: str, asked: str) -> Any:
    """Dense weights, records, and tables that nobody asks."""
    found = parameters_of(
        (), dense_vector(SIZE, rule_of(DENSE[rule]), 1), (), (state_variable("statistics", (3, 2), "float64"),), 3,
        with_copies=False,
    )  # fmt: skip
    group = TableGroup(name=f"plus/{next(_numbers)}", tables=TABLES[:1], asked=asked)
    group.create()
    return replace(found, embeddings=group)


def learner(side: Any) -> Any:
    """A step of training: what is read of the weights and the records, and the step's number."""

    def learn(gradient: Any, rate: Any, splits: Any, positions: Any) -> Any:
        state = step_state(side, 0)
        pull = Read(state)
        side.embeddings.as_servers.pull([pull])
        # What is given comes of what was read, as in training: nothing else has one wait for the other.
        push = Learn(state, gradient + 0.1 * pull.found[0], rate, splits, positions)
        side.embeddings.as_servers.push([push])
        return pull.found, value_of(push.step)

    signature = [
        tf.TensorSpec([SIZE]),
        tf.TensorSpec([]),
        tf.TensorSpec([1], tf.int64),
        tf.TensorSpec([1, 3], tf.int64),
    ]
    return tf.function(learn, signature, autograph=False)


class Read:
    """A request (`afo.embedding.pull_push`): weights and records of one server."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def asked_of(self, server: int) -> list[Any]:
        return [tf.constant([0, 2], tf.int64)]

    def answer(self, server: int, asked: Sequence[Any]) -> list[Any]:
        return [self._state.read_weights(), *tf.nest.flatten(self._state.read_records(*asked))]

    def take(self, answers: Sequence[Sequence[Any]]) -> None:
        (self.found,) = answers


class Learn:
    """An update: a gradient, a change, and what a step adds to the records."""

    def __init__(self, state: Any, *given: Any) -> None:
        self._state, self._given = state, given
        self.step: Any = None

    def given_to(self, server: int) -> list[Any]:
        gradient, *others = self._given
        return [Narrowed(gradient, tf.bfloat16), *others, tf.ones([3, 2], tf.float64)]

    def apply(self, server: int, given: Sequence[Any]) -> list[Any]:
        gradient, rate, splits, positions, added = given
        done = [self._state.apply_gradient(gradient, rate), self._state.add_to_weights(gradient)]
        ends, self.step = self._state.advance(splits, positions, [added])
        return [*done, *ends]


def assert_same_arrays(one: Any, other: Any) -> None:
    for mine, theirs in zip(one, other, strict=True):
        assert list(mine) == list(theirs)
        for name, value in mine.items():
            assert np.asarray(value).tobytes() == np.asarray(theirs[name]).tobytes(), name
