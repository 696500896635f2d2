"""What a graph may hand to the operations that pool on a server."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.ops.library import load  # noqa: E402

pytestmark = pytest.mark.tensorflow

KINDS = {
    "keys": tf.int64, "splits": tf.int32, "samples": tf.int32, "lengths": tf.int32, "near": tf.uint16,
    "far": tf.int32, "weights": tf.float32,
}  # fmt: skip
#: One feature of two samples over a table of width 2: the first sample has both keys, the second the second one.
GIVEN: dict[str, Any] = {
    "keys": [5, 6], "splits": [0, 2], "samples": [2], "lengths": [2, 1], "near": [0, 1, 1], "far": [], "weights": [],
}  # fmt: skip
ATTRIBUTES: dict[str, Any] = {"numbers": [0], "run_tables": [0], "max_norms": [0.0]}

DAMAGED = [
    ({"near": [0, 2, 1]}, "an id names no key"),
    ({"near": [], "far": [0, -1, 1]}, "an id names no key"),
    ({"far": [0, 1, 1]}, "near or far, and not both"),
    ({"lengths": [2, 2]}, "lengths and ids do not agree"),
    ({"lengths": [2, -1]}, "lengths and ids do not agree"),
    ({"lengths": [1, 1]}, "do not agree"),
    ({"lengths": [2]}, "samples and lengths do not agree"),
    ({"samples": [1]}, "do not agree"),
    ({"samples": [-1]}, "samples and lengths do not agree"),
    ({"samples": [2, 0]}, "a number of samples for each run"),
    ({"weights": [1.0]}, "a weight for each id"),
    ({"splits": [0, 1]}, "splits must go from 0 to the number of keys"),
    ({"splits": [0]}, "splits must have 2 elements for 1 tables, and have 1"),
    ({"splits": [0, 1, 2]}, "an id names no key"),  # the second set is not meant
]


@pytest.fixture(scope="module")
def tables() -> Any:
    return new_tables("test/pooled", 2)


def new_tables(name: str, dim: int) -> Any:
    handle = load().afo_embedding_tables(shared_name=name)
    load().afo_add_table(
        handle, number=0, dim=dim, rule="sgd", slots=0, option_names=["learning_rate"], options=[1.0],
        distribution="constant", initializer_names=["value"], initializer=[1.0], seed=0, shard_bits=1, min_count=1,
        probability=1.0, default_value=0.0, max_element_size=0, false_positive_probability=0.01,
    )  # fmt: skip
    return handle


def inputs(**changed: Any) -> list[Any]:
    return [tf.constant(value, KINDS[name]) for name, value in {**GIVEN, **changed}.items()]


def apply(
    tables: Any, *, rows: Any = (), counts: Any = (), gradients: Any = (1.0, 1, 1, 1), schedule: Any = 1.0,
    step: Any = 0, **changed: Any,
) -> None:  # fmt: skip
    load().afo_apply_pooled(
        tables, *inputs(**changed), tf.constant(rows, tf.int32), tf.constant(counts, tf.int32),
        tf.constant(gradients, tf.float32), tf.constant(schedule, tf.float32), tf.constant(step, tf.int64),
        **ATTRIBUTES,
    )  # fmt: skip


@pytest.mark.parametrize(("changed", "words"), DAMAGED)
def test_bags_that_do_not_fit(tables: Any, changed: dict[str, Any], words: str) -> None:
    before = load().afo_table_sizes(tables, numbers=[0]).keys.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        load().afo_pool_rows(tables, *inputs(**changed), insert=True, T=tf.float32, **ATTRIBUTES)
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        apply(tables, **changed)
    np.testing.assert_array_equal(load().afo_table_sizes(tables, numbers=[0]).keys, before)  # nothing was inserted


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gradients": [1.0]}, "gradients must have 4 elements, and have 1"),
        ({"rows": [1]}, "rows must be empty or have 2"),
        ({"counts": [1, 2, 3]}, "counts must be empty or have 2"),
        ({"schedule": []}, "the schedule must be a scalar, and has the shape"),
        ({"step": []}, "a step must be a scalar, and has the shape"),
        ({"step": [1, 2]}, "a step must be a scalar, and has the shape"),
    ],
)
def test_updates_that_do_not_fit(tables: Any, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        apply(tables, **changed)


def test_as_they_should_be(tables: Any) -> None:
    found = load().afo_pool_rows(tables, *inputs(), insert=True, T=tf.float32, **ATTRIBUTES)
    np.testing.assert_array_equal(found.pooled, [2, 2, 1, 1])
    apply(tables, rows=found.rows, gradients=[1.0, 2.0, 10.0, 20.0])
    found = load().afo_pool_rows(tables, *inputs(), insert=False, T=tf.bfloat16, **ATTRIBUTES)
    # Key 5 lost the first sample's gradient, key 6 both.
    np.testing.assert_array_equal(tf.cast(found.pooled, tf.float32), [-10, -22, -10, -21])


@contextmanager
def little_memory() -> Iterator[None]:
    """One GiB more than this process has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_rows_for_which_there_is_no_memory() -> None:
    """Two megabytes of keys of a wide table are four gigabytes of rows: an error, and the server goes on."""
    handle, count = new_tables("test/pooled/wide", 4096), 1 << 18
    given = inputs(keys=range(count), splits=[0, count], samples=[0], lengths=[], near=[])
    nothing = tf.constant([], tf.int32)
    no_memory = pytest.raises(tf.errors.ResourceExhaustedError, match="no memory is left for 1073741824 floats")
    with no_memory, little_memory():
        load().afo_pool_rows(handle, *given, insert=False, T=tf.float32, **ATTRIBUTES)
    with no_memory, little_memory():
        load().afo_apply_pooled(
            handle, *given, nothing, nothing, tf.constant([], tf.float32), 1.0, tf.constant(0, tf.int64), **ATTRIBUTES
        )


def test_many_samples_are_pooled_as_few_are(tables: Any) -> None:
    """In bfloat16 a thread sums up some at a time."""
    samples = 1000
    given = inputs(keys=[51, 52], samples=[samples], lengths=[1] * samples, near=[0, 1] * (samples // 2))
    load().afo_pool_rows(tables, *given, insert=True, T=tf.float32, **ATTRIBUTES)
    apply(
        tables, keys=[51, 52], samples=[2], lengths=[1, 1], near=[0, 1], gradients=[1.0, 2.0, 3.0, 4.0]
    )  # fmt: skip
    found = load().afo_pool_rows(tables, *given, insert=False, T=tf.bfloat16, **ATTRIBUTES)
    pooled = tf.cast(found.pooled, tf.float32).numpy().reshape(-1, 4)
    np.testing.assert_array_equal(pooled, [[0, -1, -2, -3]] * (samples // 2))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"bags": [0, 3]}, "bags must not fall"),
        ({"bags": [2, 1, 2]}, "bags must not fall"),
        ({"places": [-1, 0]}, "names no server"),
        ({"places": [1, 0]}, "a place names no key"),
        ({"places": [1 << 16, 0]}, "a place names no key"),
        ({"weights": [1.0]}, "a weight for each id"),
        ({"lengths": [3]}, "lengths and places do not agree"),
        ({"lengths": [-1]}, "lengths and places do not agree"),
        ({"lengths": []}, "a length for each run"),
    ],
)
def test_bags_to_be_dealt_out(changed: dict[str, Any], words: str) -> None:
    given = {"places": [0, 1 << 30], "lengths": [2], "bags": [0, 1, 2], "weights": [], **changed}
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        load().afo_bags_by_server(
            [tf.constant([0, 1], tf.int32)] * 2, tf.constant(given["places"], tf.int32),
            tf.constant(given["lengths"], tf.int64),
            [tf.constant(given["bags"], tf.int64)], [tf.constant(given["weights"], tf.float32)],
        )  # fmt: skip
