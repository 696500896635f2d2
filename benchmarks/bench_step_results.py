"""Where the results of a step lie: in the worker, or on the server that made them.

A small step of the trainer itself (Wide & Deep, two parameter servers, one client on this machine), whose results are
fetched after each step as the worker does. Against the same step without `afo.state.variables.on_client`, which leaves
the step's number on `ps:0`: fetching it is one more round trip, by an operation that has another name each time. Both
run in turn. Measured is the time of a step, and by how much the memory of `ps:0` grows.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import tensorflow as tf
from report import MISSED, publish, result
from servers import servers
from size import sized

from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.pipeline.batch_fragments import Origins
from afo.data.schema import Schema
from afo.job import Data, Job, Model, RoleSpec
from afo.state.parameters import Parameters
from afo.state.server_connections import connect
from afo.state.variables import on_client
from afo.train import step as training
from afo.train.setup import JobParts
from afo.train.step import prepare_function, step_function

BATCH, WARM_UP = 16, sized(200, 1)
SCHEMA = Schema(
    label="label",
    sample_id="sample_id",
    features=(
        Feature(name="user", kind="categorical", hash_buckets=500),
        Feature(name="age", kind="dense"),
    ),
)


def batch(prepare: Any) -> Any:
    """Records of one file, prepared."""
    chance = random.Random(1)
    records = [
        encode({"user": [chance.randrange(1000)], "age": [chance.random()], "label": [n % 2], "sample_id": [n]})
        for n in range(BATCH)
    ]
    zeros = tf.zeros(BATCH, tf.int64)
    return prepare(tf.constant(records), Origins(zeros, zeros, zeros, zeros))


def step(parts: JobParts, parameters: Parameters, prepare: Any, place: Any) -> Any:
    """The step whose results are put where `place` puts them."""
    training.on_client = place
    traced = step_function(parts.model, parameters, prepare)
    traced.get_concrete_function()
    return traced


def run(function: Any, inputs: Any, times: int) -> float:
    """Seconds of one step, its results fetched."""
    first = tf.zeros([], tf.int64)
    began = time.monotonic()
    for _ in range(times):
        done = function(inputs, first)
        done.steps.numpy(), float(done.loss), done.files.numpy(), done.positions.numpy()
    return (time.monotonic() - began) / times


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=sized(400, 2))
    options.add_argument("--rounds", type=int, default=sized(7, 1))
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, servers(2) as (addresses, processes):
        schema = Path(folder) / "schema.yaml"
        schema.write_text(SCHEMA.to_yaml())
        job = Job(
            name="bench", roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()}, model=Model(hidden_units=(8,)),
            data=Data(schema=str(schema), train=("x",), sample_id="sample_id", batch_size=BATCH),
        )  # fmt: skip
        parts = JobParts(job, str(schema))
        parameters = parts.model.parameters(2, 1)
        with connect(tuple(addresses)):
            parts.model.initialize(parameters)
            prepare = prepare_function(parts.model, parts.parser, 2)
            inputs = batch(prepare)
            kinds = [step(parts, parameters, prepare, place) for place in (on_client, lambda value: value)]
            seconds, growth = measure(kinds, inputs, processes[0], given.rounds, given.steps)
    ours, theirs = (statistics.median(each) for each in seconds)
    grown, grown_without = (max(1.0, statistics.median(each)) for each in growth)
    good = publish(
        "step_results",
        [
            result("a small step", ours * 1e3, theirs * 1e3, "ms", 1.05, lower_is_better=True),
            result("growth of ps:0", grown, grown_without, "bytes/step", 5.0, lower_is_better=True),
        ],
    )
    return 0 if good else MISSED


def measure(
    kinds: list[Any], inputs: Any, server: psutil.Process, rounds: int, steps: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Seconds of a step, and bytes by which the server grows in one, of each kind in each round."""
    seconds: list[list[float]] = [[] for _ in kinds]
    growth: list[list[float]] = [[] for _ in kinds]
    for function in kinds:
        run(function, inputs, WARM_UP)
    for _ in range(rounds):
        for number, function in enumerate(kinds):
            before = server.memory_info().rss
            seconds[number].append(run(function, inputs, steps))
            growth[number].append((server.memory_info().rss - before) / steps)
    return seconds, growth


if __name__ == "__main__":
    sys.exit(main())
