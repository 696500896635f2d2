"""What a graph may hand to the operations: nothing of it may read or write outside, and all of it is said."""

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.job.section import MOST_COUNT, MOST_DIM, MOST_KEYS  # noqa: E402
from afo.ops.library import load  # noqa: E402
from afo.tables.slot_map import SlotMap  # noqa: E402

pytestmark = pytest.mark.tensorflow

InvalidArgument = tf.errors.InvalidArgumentError
ADMISSION = {
    "min_count": 1, "probability": 1.0, "default_value": 0.0, "max_element_size": 0, "false_positive_probability": 0.01,
}  # fmt: skip
WRONG: tuple[dict[str, Any], ...] = (
    {"rule": "lion"}, {"slots": 1}, {"option_names": []}, {"option_names": ["rate"]}, {"distribution": "gamma"},
    {"shard_bits": 9}, {"initializer": [1.0, 2.0]}, {"initializer_names": ["first"]},
    {"option_names": ["decay_steps"], "options": [0.0]}, {"option_names": ["decay_steps"], "options": [np.nan]},
)  # fmt: skip
WRONG_ADMISSION: tuple[dict[str, Any], ...] = (
    {"min_count": MOST_COUNT + 1}, {"probability": 0.0}, {"probability": 1.5}, {"probability": np.nan},
    {"max_element_size": MOST_KEYS + 1}, {"false_positive_probability": 0.0}, {"false_positive_probability": 1.0},
)  # fmt: skip


@pytest.fixture(scope="module")
def ops() -> Any:
    return load()


@pytest.fixture(scope="module")
def tables(ops: Any) -> Any:
    handle = ops.afo_embedding_tables(shared_name="test/operations")
    add(ops, handle, 0, 2)
    add(ops, handle, 1, 3)
    return handle


def add(ops: Any, handle: Any, number: int, dim: int, **changed: Any) -> None:
    options = {
        "rule": "sgd", "slots": 0, "option_names": ["learning_rate"], "options": [0.01], "distribution": "constant",
        "initializer_names": ["value"], "initializer": [1.0], "seed": 0, "shard_bits": 2, **ADMISSION,
    }  # fmt: skip
    ops.afo_add_table(handle, number=number, dim=dim, **{**options, **changed})


def test_a_table_is_created_once_and_alike(ops: Any, tables: Any) -> None:
    add(ops, tables, 0, 2)
    with pytest.raises(tf.errors.AlreadyExistsError, match="embedding table 0 is there with another width"):
        add(ops, tables, 0, 4)
    with pytest.raises(tf.errors.AlreadyExistsError, match="embedding table 0 is there with another width"):
        add(ops, tables, 0, 2, value_dtype=tf.bfloat16)
    with pytest.raises(InvalidArgument, match="value_dtype"):
        add(ops, tables, 5, 2, value_dtype=tf.float16)
    for changed in WRONG:
        with pytest.raises(InvalidArgument, match="out of its range"):
            add(ops, tables, 5, 2, **changed)
    add(ops, tables, 2, MOST_DIM)
    with pytest.raises(InvalidArgument, match="out of its range"):
        add(ops, tables, 5, MOST_DIM + 1)
    add(ops, tables, 3, 2, min_count=MOST_COUNT, max_element_size=0)
    add(ops, tables, 4, 2, max_element_size=MOST_KEYS)
    for changed in WRONG_ADMISSION:
        with pytest.raises(InvalidArgument, match=f"out of its range: {next(iter(changed))}"):
            add(ops, tables, 5, 2, **changed)


def test_evictions_by_policies_that_cannot_be(ops: Any, tables: Any) -> None:
    policy = {"unused_steps": [5], "l2_weights": [0.0], "capacities": [0]}
    assert ops.afo_evict_rows(tables, 1, 0, numbers=[0], **policy).numpy().tolist() == [0]
    with pytest.raises(InvalidArgument, match="a policy for each table"):
        ops.afo_evict_rows(tables, 1, 0, numbers=[0, 1], **policy)
    for changed in (
        {"unused_steps": [-1]},
        {"unused_steps": [2**32 - 1]},
        {"l2_weights": [-0.5]},
        {"capacities": [-1]},
    ):
        with pytest.raises(InvalidArgument, match="an option of eviction is out of its range"):
            ops.afo_evict_rows(tables, 1, 0, numbers=[0], **{**policy, **changed})


def test_tables_that_are_not_there(ops: Any, tables: Any) -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="no embedding table 7 on this server"):
        ops.afo_lookup_rows(tables, [1], [0, 1], numbers=[7], insert=True)
    with pytest.raises(tf.errors.FailedPreconditionError, match="no embedding table -1"):
        ops.afo_lookup_rows(tables, [1], [0, 1], numbers=[-1], insert=True)
    with pytest.raises(tf.errors.NotFoundError):
        ops.afo_lookup_rows(ops.afo_embedding_tables(shared_name="test/none"), [1], [0, 1], numbers=[0], insert=True)


@pytest.mark.parametrize("splits", [[0, 2], [0, 1, 3], [0, 3, 2], [1, 1, 2], [0, 0, 1], [[0, 1, 2]], [0, -1, 2]])
def test_splits_that_do_not_cover_the_keys(ops: Any, tables: Any, splits: Any) -> None:
    with pytest.raises(InvalidArgument, match="splits must"):
        ops.afo_lookup_rows(tables, [1, 2], splits, numbers=[0, 1], insert=True)


def test_the_first_sets_of_keys_are_meant(ops: Any, tables: Any) -> None:
    found = ops.afo_lookup_rows(tables, [31, 32, 33], [0, 2, 3], numbers=[0], insert=True)
    assert (found.values.shape, found.rows.shape) == ([4], [2])
    counts = tf.constant([1, 1, 1], tf.int32)
    ops.afo_apply_rows(
        tables, [31, 32, 33], [0, 2, 3], found.rows, counts, tf.ones([4]), 100.0, tf.constant(0, tf.int64), numbers=[0]
    )
    kept = ops.afo_lookup_rows(tables, [31, 32, 33], [0, 3], numbers=[0], insert=False).values
    np.testing.assert_allclose(kept, [0, 0, 0, 0, 1, 1], atol=1e-5)


def test_keys_of_another_rank(ops: Any, tables: Any) -> None:
    with pytest.raises(InvalidArgument, match="keys must be a vector"):
        ops.afo_lookup_rows(tables, [[1, 2]], [0, 1, 2], numbers=[0, 1], insert=True)


@pytest.mark.parametrize(
    ("rows", "counts", "floats", "words"),
    [
        ([1], [], 5, "rows must be empty or have 2 elements as the keys, and has 1"),
        ([], [1, 1, 1], 5, "counts must be empty or have 2 elements as the keys, and has 3"),
        ([], [], 4, "gradients must have 5 elements for these keys, and have 4"),
    ],
)
def test_updates_of_other_sizes(ops: Any, tables: Any, rows: Any, counts: Any, floats: int, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        ops.afo_apply_rows(
            tables, [1, 2], [0, 1, 2], tf.constant(rows, tf.int32), tf.constant(counts, tf.int32), tf.ones([floats]),
            1.0, tf.constant(0, tf.int64), numbers=[0, 1],
        )  # fmt: skip


@pytest.mark.parametrize(("schedule", "step"), [(1.0, []), (1.0, [1, 2]), ([], 1), ([1.0], 1)])
def test_numbers_of_another_rank(ops: Any, tables: Any, schedule: Any, step: Any) -> None:
    """TensorFlow ends the process where one that is no scalar is read as one."""
    nothing = tf.constant([], tf.int32)
    with pytest.raises(InvalidArgument, match="must be a scalar, and has the shape"):
        ops.afo_apply_rows(
            tables, [1], [0, 1], nothing, nothing, tf.ones([2]), tf.constant(schedule, tf.float32),
            tf.constant(step, tf.int64), numbers=[0],
        )  # fmt: skip


@pytest.mark.parametrize("schedule", [np.nan, np.inf, -np.inf])
def test_a_schedule_that_no_row_would_outlive(ops: Any, tables: Any, schedule: float) -> None:
    nothing = tf.constant([], tf.int32)
    with pytest.raises(InvalidArgument, match="the schedule is"):
        ops.afo_apply_rows(
            tables, [1], [0, 1], nothing, nothing, tf.ones([2]), schedule, tf.constant(1, tf.int64), numbers=[0]
        )


@pytest.mark.parametrize(("step", "oldest"), [([], 0), (0, [[1, 2]]), ([5], 0)])
def test_evictions_at_steps_of_another_rank(ops: Any, tables: Any, step: Any, oldest: Any) -> None:
    with pytest.raises(InvalidArgument, match="a step must be a scalar, and has the shape"):
        ops.afo_evict_rows(
            tables, tf.constant(step, tf.int64), tf.constant(oldest, tf.int64), numbers=[0], unused_steps=[5],
            l2_weights=[0.0], capacities=[0],
        )  # fmt: skip


@pytest.mark.parametrize("rows", [[-1, -1], [5, 10**6], [1, 0]])
def test_row_numbers_are_a_hint_and_never_believed(ops: Any, tables: Any, rows: list[int]) -> None:
    keys = np.array([11, 12], np.int64)
    ops.afo_remove_rows(tables, keys, number=0)
    ops.afo_lookup_rows(tables, keys, [0, 2], numbers=[0], insert=True)
    ops.afo_apply_rows(
        tables, keys, [0, 2], tf.constant(rows, tf.int32), tf.constant([], tf.int32), [1.0, 1.0, 100.0, 100.0], 100.0,
        tf.constant(0, tf.int64), numbers=[0],
    )  # fmt: skip
    found = ops.afo_lookup_rows(tables, keys, [0, 2], numbers=[0], insert=False).values
    np.testing.assert_allclose(found, [0, 0, -99, -99], atol=1e-5)


class TestPooling:
    """Two servers: key 1 of table 0 (width 2), key 2 of table 1 (width 3) at the first; nothing at the second."""

    VALUES = ([1.0, 2, 3, 4, 5], [])
    SPLITS = ([0, 1, 2], [0, 0, 0])

    def pool(self, ops: Any, **changed: Any) -> Any:
        given = {
            "values": self.VALUES, "splits": self.SPLITS, "places": [0, 0], "lengths": [1, 1],
            "bags": (), "weights": (), "bag_runs": [], "weight_runs": [],
            "run_tables": [0, 1], "dims": [2, 3], "combiners": [0, 0], "max_norms": [0.0, 0.0], "num_outputs": 2,
            **changed,
        }  # fmt: skip
        kinds = {"values": tf.float32, "splits": tf.int32, "bags": tf.int64, "weights": tf.float32}
        ids = {
            "places": tf.constant(given.pop("places"), tf.int32),
            "lengths": tf.constant(given.pop("lengths"), tf.int64),
        }
        return ops.afo_pool(
            **{name: [tf.constant(each, kinds[name]) for each in given[name]] for name in kinds},
            **{name: value for name, value in given.items() if name not in kinds},
            **ids,
        )

    def test_as_they_should_be(self, ops: Any) -> None:
        first, second = self.pool(ops)
        np.testing.assert_array_equal(first, [[1, 2]])
        np.testing.assert_array_equal(second, [[3, 4, 5]])
        [joined] = self.pool(ops, num_outputs=1)
        np.testing.assert_array_equal(joined, [[1, 2, 3, 4, 5]])

    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            ({"places": [1, 0]}, "a place is outside of the answers"),
            ({"places": [-1, 0]}, "a place is outside of the answers"),
            ({"places": [1 << 30, 0]}, "a place is outside of the answers"),
            ({"lengths": [1, 2]}, "lengths and places do not agree"),
            ({"lengths": [3, -1]}, "lengths and places do not agree"),
            ({"lengths": [-1, 2]}, "lengths and places do not agree"),
            ({"lengths": [2]}, "a length for each run"),
            ({"values": ([1.0, 2, 3, 4], [])}, "server 0 answered 4 values instead of 5"),
            ({"values": ([1.0, 2, 3, 4, 5], [6.0])}, "server 1 answered 1 values instead of 0"),
            ({"splits": ([0, 1], [0, 0, 0])}, "splits must have 3 elements"),
            ({"bags": ([0, 2],), "bag_runs": [0]}, "bags must go from 0 to the number of ids, 1"),
            ({"bags": ([0, 1, 0, 1],), "bag_runs": [1]}, "bags must not fall"),
            ({"bags": ([],), "bag_runs": [1]}, "bags must begin with 0"),
            ({"bags": ([0, 1],), "bag_runs": [2]}, "bag_runs names no run, or one twice"),
            ({"bags": ([0, 1], [0, 1]), "bag_runs": [1, 1]}, "bag_runs names no run, or one twice"),
            ({"bags": ([0, 1],), "bag_runs": []}, "bag_runs names a run for each input"),
            ({"weights": ([1.0, 2.0],), "weight_runs": [1]}, "a weight for each id"),
            ({"weights": ([1.0],), "weight_runs": [-1]}, "weight_runs names no run, or one twice"),
            ({"run_tables": [0, 2]}, "names no table|out of its range"),
            ({"combiners": [0, 9]}, "out of its range"),
            ({"combiners": [0]}, "a table, a combiner and a norm for each run"),
            ({"num_outputs": 3}, "an output for each run, or one for all"),
            # Widths whose sum is that of the answer, and rows outside of it.
            (
                {"values": ([], []), "splits": ([0, 9, 18], [0, 0, 0]), "dims": [4, -4]},
                "the width of a table is 1 to 4096",
            ),
            ({"dims": [2, 0]}, "the width of a table is 1 to 4096"),
            ({"dims": [2, 4097]}, "the width of a table is 1 to 4096"),
            (
                {"num_outputs": 1, "places": [0, 0, 0, 0, 0], "lengths": [3, 2]},
                "a multiple of 2 samples, and run 0 has 3",
            ),
            ({"num_outputs": 1, "places": [0, 0, 0], "lengths": [3, 0]}, "a multiple of 0 samples, and run 0 has 3"),
        ],
    )
    def test_what_does_not_fit(self, ops: Any, changed: dict[str, Any], words: str) -> None:
        with pytest.raises((InvalidArgument, ValueError), match=words):
            self.pool(ops, **changed)


def test_the_keys_of_a_batch_by_server(ops: Any) -> None:
    draw = np.random.default_rng(1)
    runs = [draw.integers(-20, 20, size) for size in (500, 0, 300, 1)]
    tables = [0, 1, 0, 2]
    for servers in (1, 2, 3, 8):
        found = ops.afo_unique(
            [tf.constant(run, tf.int64) for run in runs],
            run_tables=tables,
            num_tables=3,
            num_servers=servers,
            slot_starts=SlotMap.equal(servers).starts,
        )
        bits = 31 - max(0, (servers - 1).bit_length())
        assert found.lengths.numpy().tolist() == [500, 0, 300, 1]
        for run, table, places in zip(runs, tables, tf.split(found.places, found.lengths), strict=True):
            for key, place in zip(run, places.numpy(), strict=True):
                server, number = int(place) >> bits, int(place) & ((1 << bits) - 1)
                splits = found.splits[server].numpy()
                assert number < splits[table + 1] - splits[table]
                assert found.keys[server].numpy()[splits[table] + number] == key
        assert sum(int(tf.reduce_sum(each)) for each in found.counts) == 801
        different = {(table, key) for run, table in zip(runs, tables, strict=True) for key in run.tolist()}
        assert sum(each.shape[0] for each in found.keys) == len(different)


@pytest.mark.parametrize(("tables", "servers"), [(2**31 - 1, 1), (1 << 23, 3)])
def test_more_tables_than_can_be_counted(ops: Any, tables: int, servers: int) -> None:
    with pytest.raises((InvalidArgument, ValueError), match="tables times servers may be 16777216"):
        ops.afo_unique(
            [tf.constant([1], tf.int64)], run_tables=[0], num_tables=tables, num_servers=servers,
            slot_starts=list(range(servers)),
        )  # fmt: skip
