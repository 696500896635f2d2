"""A step's pull and push as one message each against a message of TensorFlow for each tensor.

The trainer's own step of Wide & Deep on hash tables (`job_step`), two parameter servers, one worker, one machine;
batches of 4096 and of 512. Sides take turns of some batches. By the clock, and in processor time of all processes.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import statistics
import sys
import tempfile
from functools import partial
from itertools import product
from typing import Any

import psutil
import tensorflow as tf
from bench_pipeline import SMALL, prepared
from job_step import BATCH, Side, side
from job_worker import turn
from report import MISSED, publish, result
from servers import servers
from size import sized
from tensors_apart import tensors_apart

from afo.job import Optimizer
from afo.state.server_connections import connect

SERVERS = 2


def once(one: Side, batch: Any) -> None:
    """A step, to the values that the worker fetches."""
    done = one.step(batch.inputs, tf.zeros([], tf.int64))
    done.steps.numpy(), float(done.loss)


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(15, 1))
    options.add_argument("--batches", type=int, default=sized(24, 4), help="of a turn")
    given = options.parse_args()
    with servers(SERVERS) as (addresses, started), connect(tuple(addresses)), tempfile.TemporaryDirectory() as folder:
        sides = {"messages": side(folder, "hash_table", Optimizer(), 0, "bfloat16", SERVERS)}
        with tensors_apart():
            sides["tensors"] = side(folder, "hash_table", Optimizer(), 1, "bfloat16", SERVERS)
            sides["tensors"].step.get_concrete_function()
        loads = {size: prepared(sides["messages"], size, given.batches) for size in (BATCH, SMALL)}
        everybody = [psutil.Process(), *started]
        for size, one in product(loads, sides.values()):
            turn(partial(once, one), loads[size], everybody)  # brings the rows, and lets the servers know the functions
        found: dict[tuple[int, str], list[tuple[float, float]]] = {}
        for _, size, (name, one) in product(range(given.rounds), loads, sides.items()):
            found.setdefault((size, name), []).append(turn(partial(once, one), loads[size], everybody))
    results = []
    for size, (number, (unit, bar)) in product(loads, enumerate((("ms a step", 1.05), ("core-ms a step", 1 / 0.95)))):
        ours, theirs = (statistics.median(each[number] for each in found[size, name]) for name in sides)
        results.append(result(f"batches of {size}, {unit}", ours, theirs, unit, bar, lower_is_better=True))
    return 0 if publish("messages", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())
