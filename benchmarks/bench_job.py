"""A training step of a whole job, on hash tables and on stock TensorFlow's variables.

The trainer's own step of Wide & Deep (two parameter servers, one worker or two that do not wait for each other, one
machine), the same records, model and optimizer on all sides: parsing, finding the different ids, pull, forward,
backward, push, position. Hash tables against variables cut into rows by `tf.unique` and `tf.dynamic_partition` and
updated by TensorFlow's own AdaGrad, or by its Adam, whose slots decay whole at every step; records parsed by
`tf.io.parse_example`, a batch at once. Sides take turns of some
batches, each worker its own; the time is that of all workers together for a batch of each. 26 ids a sample by Zipf's
law, of 385,000 values each (10 M in all), width 16, batches of 4096; the layers of all sides compute in bfloat16, which
is the faster one for both where the processor has it, or by `--precision` in float32. `--rounds 1 --batches 2` is a
quick look.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf
from job_step import once, records, side
from report import MISSED, each_alone, publish, result
from servers import servers
from size import sized

from afo.job import Adagrad, Adam, Optimizer, OptimizerChoice
from afo.optimizers import AdamRule
from afo.state.server_connections import connect
from afo.trainable import wide_deep_model

SERVERS = 2
OPTIONS = {"adagrad": Adagrad(), "adam": Adam()}
AT_LEAST = {"adagrad": 1.8, "adam": 14.0}


class StockAdam(AdamRule):
    """Adam of `tf.keras.optimizers` and `tf.compat.v1.train` for sparse gradients: all moments decay at every step."""

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """Whole tables, as TensorFlow's `_apply_sparse_shared`."""
        options, (mean, square, _) = self._options, slots
        moments = []
        for slot, value, keep in ((mean, gradient, options.beta_1), (square, gradient**2, options.beta_2)):
            decayed = tf.raw_ops.ReadVariableOp(resource=slot, dtype=tf.float32) * keep
            tf.raw_ops.AssignVariableOp(resource=slot, value=decayed)
            tf.raw_ops.ResourceScatterAdd(resource=slot, indices=rows, updates=(1 - keep) * value)
            moments.append(tf.raw_ops.ReadVariableOp(resource=slot, dtype=tf.float32))
        change = options.learning_rate * rate * moments[0] / (tf.sqrt(moments[1]) + options.epsilon)
        return tf.raw_ops.AssignSubVariableOp(resource=variable, value=change)


class Worker:
    """One of the workers; the first is this process."""

    def __init__(self, number: int, given: argparse.Namespace, folder: str) -> None:
        options = optimizer_of(given.optimizer)
        storages = ("hash_table", "dense")
        self._sides = [side(folder, each, options, number, given.precision, SERVERS) for each in storages]
        self._batches = records(given.batches, number)
        for one in self._sides:
            for batch in self._batches:
                once(one, batch)

    def take_turn(self, number: int) -> None:
        """All batches on one side."""
        for batch in self._batches:
            once(self._sides[number], batch)


def optimizer_of(name: str) -> Optimizer:
    """For all parts of the model. Called before anything is traced."""
    choice = OptimizerChoice(**{name: OPTIONS[name]})
    if name == "adam":
        wide_deep_model.rule_of = lambda each: StockAdam(each.chosen)
    return Optimizer(deep=choice, wide=choice)


def help_out(given: argparse.Namespace) -> None:
    """Be the second worker: a turn for each line of stdin, which names the side."""
    with connect(tuple(json.loads(given.servers))):
        worker = Worker(1, given, given.folder)
        print("ready", flush=True)
        for line in sys.stdin:
            worker.take_turn(int(line))
            print("done", flush=True)


@contextmanager
def helper(addresses: list[str], folder: str) -> Iterator[subprocess.Popen[str]]:
    """The second worker, which is ready."""
    command = [sys.executable, *sys.argv, "--servers", json.dumps(addresses), "--folder", folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            heard(process)
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str]) -> None:
    """Wait for a line."""
    assert process.stdout is not None
    if not process.stdout.readline():
        raise RuntimeError("the second worker has ended")


def compared(folder: str, given: argparse.Namespace) -> tuple[float, float]:
    """Median seconds of a batch of each worker on hash tables and on dense ones."""
    seconds: list[list[float]] = [[], []]
    with ExitStack() as stack:
        addresses, _ = stack.enter_context(servers(SERVERS))
        stack.enter_context(connect(tuple(addresses)))
        own = Worker(0, given, folder)
        others = [stack.enter_context(helper(addresses, folder)) for _ in range(given.workers - 1)]
        for _ in range(given.rounds):
            for number, times in enumerate(seconds):
                began = time.perf_counter()
                for other in others:
                    print(number, file=other.stdin, flush=True)
                own.take_turn(number)
                for other in others:
                    heard(other)
                times.append((time.perf_counter() - began) / given.batches)
    ours, theirs = (statistics.median(each) for each in seconds)
    return ours, theirs


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(9, 1))
    options.add_argument("--batches", type=int, default=sized(8, 1))
    options.add_argument("--optimizer", choices=AT_LEAST, help="this one alone")
    options.add_argument("--workers", type=int, choices=(1, 2), default=1)
    options.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16", help="of all sides")
    options.add_argument("--servers", help=argparse.SUPPRESS)
    options.add_argument("--folder", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.optimizer is None:
        # TensorFlow connects a process to one cluster.
        alone = sized([(name, count) for name in AT_LEAST for count in ("1", "2")], [("adam", "2")])
        return each_alone([("--optimizer", name, "--workers", count) for name, count in alone])
    if given.servers:
        help_out(given)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = compared(folder, given)
    claim = f"a job's step with {given.optimizer}, {given.precision}, {SERVERS} servers, {given.workers} of workers"
    least = AT_LEAST[given.optimizer]
    entry = result(claim, ours * 1e3, theirs * 1e3, "ms", least, lower_is_better=True)
    return 0 if publish(f"job_{given.optimizer}_{given.workers}", [entry]) else MISSED


if __name__ == "__main__":
    sys.exit(main())
