"""Filters and evictions: which keys have a row, on any number of servers, through checkpoints and deltas."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo import embedding  # noqa: E402
from afo.embedding import Eviction, Filter, Sgd  # noqa: E402
from afo.embedding.checkpoint import TableSaver, restore, take_over  # noqa: E402
from afo.errors import SpecError  # noqa: E402
from afo.tables.saved_tables import read_rows  # noqa: E402

pytestmark = pytest.mark.tensorflow

Factory = Callable[[int], Any]
FIRST = 3.0
ALL, NONE = Filter(), Eviction()


def variable_of(group: Any, admitted: Filter = ALL, evicted: Eviction = NONE, name: str = "v") -> Any:
    return embedding.get_embedding_variable(
        name,
        4,
        initializer=FIRST,
        optimizer=Sgd(learning_rate=1.0),
        group=group,
        filter_option=admitted,
        evict_option=evicted,
    )


def train(variable: Any, keys: Any, step: int = 0, *, pooled: bool = False) -> Any:
    """Each occurrence of a key takes 1 from its row; returns what the lookup saw."""
    with embedding.EmbeddingTape() as tape:
        ids = np.asarray(keys, np.int64)
        if pooled:
            rows = embedding.embedding_lookup_sparse_with_distributed_aggregation(
                variable, tf.ragged.constant([[key] for key in ids.tolist()], dtype=tf.int64), None, "sum"
            )
        else:
            rows = embedding.embedding_lookup(variable, ids)
        loss = tf.reduce_sum(rows)
    tape.gradient(loss)
    tape.apply(step=step)
    return rows.numpy()[:, 0]


def first_weights(variable: Any, keys: Any) -> list[float]:
    return embedding.embedding_lookup(variable, np.asarray(keys, np.int64)).numpy()[:, 0].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("servers", [1, 2, 5])
def test_a_key_has_a_row_once_it_was_met_often_enough(new_group: Factory, servers: int, pooled: bool) -> None:
    variable = variable_of(new_group(servers), Filter(min_count=3, default_value=0.5))
    assert train(variable, [7, 7, 8, 9], pooled=pooled).tolist() == [0.5] * 4
    assert variable.total_count() == 0
    # 7 is met for the third time: its row begins, and this gradient, taken at the default values, does not count.
    assert train(variable, [7, 8], pooled=pooled).tolist() == [0.5, 0.5]
    assert variable.total_count() == 1
    assert first_weights(variable, [7, 8, 9, 10]) == [FIRST, 0.5, 0.5, 0.5]
    assert train(variable, [7, 7, 8], pooled=pooled).tolist() == [FIRST, FIRST, 0.5]
    assert first_weights(variable, [7, 8, 9]) == [FIRST - 2, FIRST, 0.5]
    assert variable.total_count() == 2


def test_which_keys_chance_admits_is_the_same_on_any_number_of_servers(new_group: Factory) -> None:
    keys = np.arange(5000)
    found = []
    for servers in (1, 2, 5):
        variable = variable_of(new_group(servers), Filter(probability=0.2))
        assert not train(variable, keys, step=4).any(), "zeros unless the filter says otherwise"
        found.append(np.asarray(first_weights(variable, keys)))
        assert variable.total_count() == np.count_nonzero(found[-1])
    assert all((each == found[0]).all() for each in found)
    # 5 deviations of a binomial distribution.
    assert abs(np.count_nonzero(found[0]) - 1000) < 5 * np.sqrt(5000 * 0.2 * 0.8)
    train(variable, keys, step=5)
    assert variable.total_count() > np.count_nonzero(found[0]), "another step draws anew"


def test_a_counting_bloom_filter_admits_no_key_too_late_and_few_too_early(new_group: Factory, tmp_path: Path) -> None:
    filter_option = Filter(min_count=3, max_element_size=20_000, false_positive_probability=0.01)
    variable = variable_of(new_group(2), filter_option)
    saver = TableSaver(variable.group)
    keys = np.arange(10_000) * 7919
    train(variable, keys, step=1)
    saver.save(str(tmp_path / "0"))
    train(variable, keys[:4000], step=2)
    # Half as many keys as it is for: far below 1 % look as if they had been there before.
    assert variable.total_count() <= 10
    delta = saver.save(str(tmp_path / "1"), incremental=True)
    for servers in (1, 5):
        new = variable_of(new_group(servers), filter_option)
        restore(new.group, delta)
        train(new, keys, step=3)
        assert (np.asarray(first_weights(new, keys[:4000])) != 0).all()
        assert 4000 <= new.total_count() <= 4000 + 60
    assert len(read_rows(delta)["v"].keys) == variable.total_count()


@pytest.mark.parametrize("servers", [1, 3])
def test_rows_that_are_unused_light_or_too_many_go(new_group: Factory, servers: int) -> None:
    group = new_group(servers)
    unused = variable_of(group, evicted=Eviction(unused_steps=10), name="unused")
    light = variable_of(group, evicted=Eviction(l2_weight=4.5), name="light")
    full = variable_of(group, evicted=Eviction(capacity=100), name="full")
    kept = variable_of(group, name="kept")
    for variable in (unused, light, full, kept):
        train(variable, np.arange(300), step=5)
        train(variable, np.arange(100, 150), step=15)
    # Of `light` each row has 4 weights of 2 or 1: squares of 16 or 4.
    assert group.evict(16).tolist() == [250, 50, full_of(full), 0]
    assert [variable.total_count() for variable in (unused, light, kept)] == [50, 250, 300]
    assert 60 <= full.total_count() <= 100 + 16 * servers
    assert first_weights(unused, [100, 99]) == [FIRST - 2, FIRST]
    # The longest unused went first.
    rest = np.asarray(first_weights(full, np.arange(100, 150)))
    assert np.count_nonzero(rest == FIRST - 2) >= 45
    assert group.evict(16).tolist()[0] == 0
    # Older than a step: of any table.
    assert group.evict(16, oldest=15).tolist()[3] == 250
    assert kept.total_count() == 50


def test_evictions_by_time_go_by_each_tables_own(new_group: Factory) -> None:
    group = new_group(2)
    kept, old, older = (
        variable_of(group, evicted=Eviction(unused_time=age), name=name)
        for name, age in (("kept", None), ("old", 60.0), ("older", 3600.0))
    )
    for step in (1, 5, 9):
        for each in (kept, old, older):
            train(each, [step], step=step)
    with pytest.raises(SpecError, match="`old` is evicted by unused_time: give `step_ago`"):
        group.evict(9)
    assert group.evict(9, step_ago={60.0: 9, 3600.0: 5}.__getitem__).tolist() == [0, 2, 1]
    assert group.evict(9, oldest=6, step_ago=lambda age: 0).tolist() == [2, 0, 1]


def full_of(variable: Any) -> int:
    """How many of 300 rows are gone."""
    return 300 - int(variable.total_count())


def test_keys_that_wait_and_evictions_are_in_checkpoints_and_deltas(new_group: Factory, tmp_path: Path) -> None:
    policies = Filter(min_count=2), Eviction(unused_steps=5)
    old = variable_of(new_group(2), *policies)
    saver = TableSaver(old.group)
    train(old, [1, 1, 2, 3], step=1)
    saver.save(str(tmp_path / "0"))
    train(old, [2, 4, 6, 6], step=6)
    assert old.group.evict(7).tolist() == [1], "the row of 1; 3 waits no longer, either"
    delta = saver.save(str(tmp_path / "1"), incremental=True)
    assert sorted(read_rows(delta)["v"].keys.tolist()) == [2, 6]
    for servers in (1, 3):
        new = variable_of(new_group(servers), *policies)
        assert restore(new.group, delta) == 1 + 2, "rows of the base and of the delta"
        assert new.total_count() == 2
        new.group.evict(7)
        train(new, [3, 4], step=8)
        assert first_weights(new, [1, 2, 3, 4, 6]) == [0, FIRST, 0, FIRST, FIRST], "4 was met before, 3 forgotten"
        train(new, [3], step=9)
        assert new.total_count() == 4
    # Another model takes keys that wait along with the weights; one without a filter has no use for them.
    for filter_option, rows in ((policies[0], 3), (ALL, 4)):
        group = new_group(1)
        other = variable_of(group, filter_option)
        assert take_over(group, delta, {"v"}, set()) == 3
        assert other.total_count() == 2
        train(other, [4, 5], step=8)
        assert other.total_count() == rows


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (partial(Filter, min_count=0), "Filter: `min_count` is 0; allowed: whole number >= 1 and <= 16"),
        (partial(Filter, probability=0.0), "Filter: `probability` is 0.0; allowed: number > 0 and <= 1"),
        (partial(Filter, min_count=2, probability=0.5), "a filter has `min_count` or `probability`, not both"),
        (
            partial(Filter, max_element_size=5),
            "`max_element_size` needs a `min_count` of 2 to 255, not 1",
        ),
        (partial(Filter, min_count=256, max_element_size=5), "`max_element_size` needs a `min_count` of 2 to 255"),
        (partial(Filter, min_count=2, max_element_size=-1), "`max_element_size` is -1; allowed: whole number >= 0"),
        (
            partial(Filter, false_positive_probability=0.0),
            "`false_positive_probability` is 0.0; allowed: number >= 1e",
        ),
        (partial(Filter, default_value=float("nan")), "`default_value` is nan; allowed: number"),
        (partial(Eviction, capacity=-1), "Eviction: `capacity` is -1; allowed: whole number >= 0"),
        (
            partial(Eviction, unused_steps=1 << 32),
            "`unused_steps` is 4294967296; allowed: whole number >= 0 and <= 4",
        ),
    ],
)
def test_policies_that_cannot_be(policy: Callable[[], object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        policy()
