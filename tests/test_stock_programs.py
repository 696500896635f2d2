"""What benchmarks/bench_stock.py stands on: the programs' own optimizer and rows, and what a job is said to take."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

#: Ends at once, and leaves a process behind that works for SPENT_S.
SPENT_S = 0.3
LEAVES_WORK = f"""
import os, time
if not os.fork():
    os.setsid()
    while time.process_time() < {SPENT_S}:
        pass
"""


def measured(limit_s: float, *command: str) -> tuple[int, dict[str, float]]:
    """Exit code and answer of measured.py."""
    words = [sys.executable, str(BENCHMARKS / "measured.py"), str(limit_s), *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, json.loads(done.stdout)


def test_work_of_processes_that_left_their_parent_counts() -> None:
    code, took = measured(60, sys.executable, "-c", LEAVES_WORK)
    assert (code, took["code"]) == (0, 0)
    assert took["cpu_s"] >= SPENT_S
    assert took["peak_bytes"] > 0


def test_a_command_that_takes_too_long_is_ended_with_what_it_started() -> None:
    code, took = measured(0.1, "sh", "-c", "sleep 600 & wait")
    assert code != 0
    assert took["code"] == -9


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, ModuleType]]:
    """Modules of benchmarks/stock by name, as a program beside them imports them."""
    sys.path.insert(0, str(BENCHMARKS / "stock"))
    try:
        import clicks
        import lazy_adam

        yield {"clicks": clicks, "lazy_adam": lazy_adam}
    finally:
        sys.path.remove(str(BENCHMARKS / "stock"))


@pytest.mark.tensorflow
def test_lazy_adam_leaves_the_rows_alone_that_a_batch_does_not_name(programs: dict[str, ModuleType]) -> None:
    import tensorflow as tf

    first = np.arange(8, dtype=np.float32).reshape(4, 2)
    variable, optimizer = tf.Variable(first), programs["lazy_adam"].LazyAdam(0.1)
    expected, mean, square = first.copy(), np.zeros_like(first), np.zeros_like(first)
    for step, rows in enumerate(([1, 3], [1], [1, 1]), start=1):  # a row that is named twice has the sum
        gradient = np.full((len(rows), 2), 0.5, np.float32)
        optimizer.apply_gradients([(tf.IndexedSlices(gradient, rows, (4, 2)), variable)])
        named, counts = np.unique(rows, return_counts=True)
        total = 0.5 * counts[:, None]
        mean[named] = 0.9 * mean[named] + 0.1 * total
        square[named] = 0.999 * square[named] + 0.001 * total**2
        rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        expected[named] -= rate * mean[named] / (np.sqrt(square[named]) + 1e-8)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5)


@pytest.mark.tensorflow
def test_ids_below_the_number_of_buckets_have_rows_of_their_own(programs: dict[str, ModuleType]) -> None:
    import tensorflow as tf

    clicks, buckets = programs["clicks"], 1000
    ids = tf.range(buckets, dtype=tf.int64)
    deep, wide = (each.numpy() for each in clicks.rows_of(dict.fromkeys(clicks.IDS, ids), buckets))
    assert np.unique(deep).size == deep.size == buckets * len(clicks.IDS)
    of_ids = wide[:, : len(clicks.IDS)]
    assert np.unique(of_ids).size == of_ids.size
    assert wide.max() < buckets * (len(clicks.IDS) + len(clicks.CROSSES))
    # A half of the table each, whichever ids there are.
    assert 0.4 < (deep[: buckets // 10] < deep.max() / 2).mean() < 0.6


@pytest.mark.tensorflow
def test_few_crosses_share_a_row(programs: dict[str, ModuleType]) -> None:
    import tensorflow as tf

    clicks, buckets, values = programs["clicks"], 100_000, 30
    left, right = (tf.constant(each.ravel()) for each in np.divmod(np.arange(values**2), values))
    features = dict.fromkeys(clicks.IDS, left) | dict.fromkeys(("position", "device"), right)
    _, wide = clicks.rows_of(features, buckets)
    crossed = wide[:, len(clicks.IDS)].numpy()
    # As many as by chance: values**4 / 2 / buckets = 4.
    assert np.unique(crossed).size > values**2 - 15
