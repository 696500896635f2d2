"""The embedding pipeline (`train.pipeline`) against steps one by one, on networks of different latency.

The trainer's own step of Wide & Deep on hash tables (`job_step`), two parameter servers, one worker, one machine; what
the worker and the servers tell each other goes through proxies that hold it back for 0, 1 or 5 ms each way, for all
sides alike. Batches of 4096 and of 512, prepared beforehand, as a worker's reading thread does. Sides take turns of
some batches; the time is that of a turn, from the first batch to the last that the servers have applied.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import tensorflow as tf
from delaying_proxy import delaying
from job_step import BATCH, cut, records, side
from report import MISSED, publish, result
from servers import servers
from size import sized

from afo.data.pipeline.batch_fragments import Origins
from afo.data.pipeline.batcher import Batch
from afo.job import Optimizer
from afo.state.server_connections import connect
from afo.train.pipeline import OneByOne, Pipeline, Steps

SERVERS = 2
DEPTHS = sized((0, 1, 2), (0, 1))
DELAYS_MS = sized((0, 1, 5), (0, 1))
SMALL = BATCH // 8
#: By the delay: what the first depth has to reach.
AT_LEAST = {0: 1.0, 1: 1.15, 5: 1.4}


def prepared(one: Any, size: int, batches: int) -> list[Batch]:
    """Batches as they come out of a worker's reading thread."""
    zeros = tf.zeros(size, tf.int64)
    origins = Origins(zeros, zeros, zeros, zeros)
    parts = cut(records(max(1, batches * size // BATCH), 0), size)
    return [Batch(one.prepare(part, origins), size, ()) for part in parts[:batches]]


def turn(steps: Steps, batches: list[Batch]) -> float:
    """Seconds of all batches."""
    zero, began = tf.zeros([], tf.int64), time.perf_counter()
    for applied in _applied(steps, batches, zero):
        float(applied.result.loss), applied.result.steps.numpy()
    return time.perf_counter() - began


def _applied(steps: Steps, batches: list[Batch], zero: Any) -> Iterator[Any]:
    for batch in batches:
        yield from steps.put(batch, zero)
    yield from steps.drain()


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(7, 1))
    options.add_argument("--batches", type=int, default=sized(24, 4), help="of a turn")
    given = options.parse_args()
    with (
        servers(SERVERS) as (addresses, _),
        delaying(addresses) as network,
        connect(network.addresses),
        tempfile.TemporaryDirectory() as folder,
    ):
        alone = side(folder, "hash_table", Optimizer(), 0, "bfloat16", SERVERS)
        ahead = side(folder, "hash_table", Optimizer(), 1, "bfloat16", SERVERS, overlapping=True)
        sides: dict[int, Steps] = {
            depth: Pipeline(ahead.step, depth, lambda _: (0, 0, 0)) if depth else OneByOne(alone.step)
            for depth in DEPTHS
        }
        loads = {size: prepared(alone, size, given.batches) for size in (BATCH, SMALL)}
        for size, steps in product(loads, sides.values()):
            turn(steps, loads[size])  # brings the rows, and lets the servers know the functions
        seconds: dict[tuple[int, int, int], list[float]] = {}
        for _, delay in product(range(given.rounds), DELAYS_MS):
            network.hold_back(delay / 1e3)
            for size, (depth, steps) in product(loads, sides.items()):
                seconds.setdefault((delay, size, depth), []).append(turn(steps, loads[size]) / given.batches * 1e3)
        for steps in sides.values():
            steps.close()
    median = {key: statistics.median(times) for key, times in seconds.items()}
    results = [
        result(
            f"pipeline {depth} against 0, {delay} ms each way, batches of {size}",
            median[delay, size, depth], median[delay, size, 0], "ms a step", AT_LEAST[delay], lower_is_better=True,
        )
        for delay, size, depth in product(DELAYS_MS, (BATCH, SMALL), DEPTHS[1:])
    ]  # fmt: skip
    return 0 if publish("pipeline", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())
