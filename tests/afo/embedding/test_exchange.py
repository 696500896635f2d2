"""What a model may ask of an exchange: features side by side, some tables for the keys of others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.embedding import TableGroup  # noqa: E402
from afo.embedding.checkpoint import TableSaver, take_over  # noqa: E402
from afo.embedding.exchange import (  # noqa: E402
    Exchange,
    Run,
    unique_keys,
)
from afo.embedding.initializers import Initializer  # noqa: E402
from afo.embedding.server_tables import Table  # noqa: E402
from afo.job import Sgd  # noqa: E402
from afo.tables.slot_map import SlotMap  # noqa: E402

pytestmark = pytest.mark.tensorflow

#: Normal first values: rows of a key differ from table to table by their seeds.
WIDTHS = (1, 3, 8, 16)
GROUPS = {
    servers: TableGroup(
        ["/device:CPU:0"] * servers,
        name=f"exchange/{servers}",
        tables=[Table(f"t{w}", w, Sgd(learning_rate=0.5), Initializer("normal", w, stddev=1.0)) for w in WIDTHS],
    )
    for servers in (1, 3)
}


@pytest.fixture(scope="module", autouse=True)
def created() -> None:
    for group in GROUPS.values():
        group.create()


def asked(group: TableGroup, *arguments: Any, insert: bool) -> Exchange:
    """An exchange with its answers."""
    exchange = Exchange(group, *arguments, insert=insert)
    group.as_servers.pull([exchange])
    return exchange


@st.composite
def features(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, bool]]]:
    """Samples, and of each feature its table, its ids a sample, and whether they are pooled."""
    one = st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans())
    return draw(st.integers(0, 5)), draw(st.lists(one, min_size=2, max_size=5))


def runs_of(samples: int, asked: list[tuple[int, int, bool]]) -> list[Run]:
    bags = [tf.constant(np.arange(samples + 1) * count, tf.int64) if pooled else None for _, count, pooled in asked]
    return [Run(number, bag, combiner="sum" if bag is not None else None) for number, bag in enumerate(bags)]


@pytest.mark.parametrize("servers", [1, 3])
@given(case=features(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_side_by_side_is_what_features_are_one_by_one(servers: int, case: Any, seed: int) -> None:
    samples, runs = case
    if samples and all(not pooled and count > 1 for _, count, pooled in runs):
        runs = [*runs, (0, 1, False)]  # somebody has a row a sample
    generator, group = np.random.default_rng(seed), GROUPS[servers]
    ids = [tf.constant(generator.integers(0, 9, samples * count), tf.int64) for _, count, _ in runs]
    keys = unique_keys(ids, range(len(ids)), SlotMap.equal(servers))
    exchange = asked(group, [table for table, _, _ in runs], keys, runs_of(samples, runs), insert=True)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(exchange.values)
        one_by_one = tf.concat([tf.reshape(each, [samples, -1]) for each in exchange.pool()], axis=1)
        joined = exchange.concat()
        slopes = tf.constant(generator.normal(size=one_by_one.shape), tf.float32)
        losses = [tf.reduce_sum(each * slopes) for each in (one_by_one, joined)]
    np.testing.assert_array_equal(joined, one_by_one)
    for own, other in zip(*(tape.gradient(loss, exchange.values) for loss in losses), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)


def test_tables_may_be_asked_for_the_first_sets_of_keys_alone() -> None:
    group = GROUPS[3]
    ids = [tf.constant([5, 6, 5], tf.int64), tf.constant([7], tf.int64)]
    keys = unique_keys(ids, [0, 1], SlotMap.equal(3))
    whole = asked(group, [2, 3], keys, [Run(0), Run(1)], insert=True)
    first = asked(group, [1], keys, [Run(0)], insert=True)
    alone = asked(group, [1], unique_keys(ids[:1], [0], SlotMap.equal(3)), [Run(0)], insert=True)
    np.testing.assert_array_equal(first.pool()[0], alone.pool()[0])
    assert {name: rows.shape for name, rows in whole.by_table(whole.values).items()} == {"t8": (2, 8), "t16": (1, 16)}
    assert first.by_table(first.values)["t3"].shape == (2, 3)
    before = first.pool()[0].numpy()
    first.apply([tf.ones_like(values) for values in first.values], step=1, schedule=1.0)
    after = asked(group, [1], keys, [Run(0)], insert=True).pool()[0].numpy()
    np.testing.assert_allclose(after, before - 0.5, rtol=1e-6)


def test_of_many_tables_each_has_fewer_shards_and_they_are_read_by_a_group_of_few(tmp_path: Path) -> None:
    def tables(count: int) -> list[Table]:
        return [Table(f"t{n}", 2, Sgd(), Initializer("normal", n, stddev=1.0)) for n in range(count)]

    few, many = TableGroup(name="few", tables=tables(32)), TableGroup(name="many", tables=tables(200))
    assert {each.shard_bits for each in few.tables} == {4}
    assert {each.shard_bits for each in many.tables} == {0}
    many.create()
    keys = unique_keys([tf.range(50, dtype=tf.int64)] * 200, range(200), SlotMap.equal(1))
    asked(many, range(200), keys, [Run(n) for n in range(200)], insert=True)
    url = TableSaver(many).save(str(tmp_path / "c"))
    few.create()
    assert take_over(few, url, {"t0", "t31"}, {"t0", "t31"}) == 100
    keys = unique_keys([tf.range(50, dtype=tf.int64)], [0], SlotMap.equal(1))
    found = [asked(each, [31], keys, [Run(0)], insert=False) for each in (few, many)]
    np.testing.assert_array_equal(found[0].pool()[0], found[1].pool()[0])
    assert few.sizes()[0].sum() == 100
