"""A step on 1, 2, 4 and 8 parameter servers with the same load altogether: what it costs to deal tables out.

26 features with a table each, 4096 samples, ids by Zipf's law, width 16, AdaGrad: the worker finds the different ids,
asks all servers, pools, and sends gradients back. Eight server processes on this machine, of which each side uses the
first so many; sides take turns. Servers share the machine's cores, so more of them add no speed here: what is seen is
the price of more messages and smaller ones. All that a step asks of a server is one message, its answer another, and
what it gives a third (`afo.embedding.pull_push`); against the same with a message of TensorFlow for each tensor. The
price of a further server is processor time of all processes.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import statistics
import sys

import psutil
from bench_many_tables import FEW, ids_of, ours
from job_worker import turn
from report import MISSED, publish, result
from servers import servers
from size import sized
from tensors_apart import tensors_apart

from afo.embedding import TableGroup
from afo.state.server_connections import connect

NUMBERS = sized((1, 2, 4, 8), (1, 2))
DEVICES = [f"/job:ps/replica:0/task:{each}/device:CPU:0" for each in range(max(NUMBERS))]
BATCHES = sized(16, 1)


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(10, 1))
    given = options.parse_args()
    batches = [ids_of(FEW, seed) for seed in range(BATCHES)]
    with servers(max(NUMBERS)) as (addresses, processes), connect(tuple(addresses)):
        everybody = [psutil.Process(), *processes]
        sides = {("messages", number): ours(FEW, TableGroup(DEVICES[:number], f"on {number}")) for number in NUMBERS}
        with tensors_apart():
            sides |= {
                ("tensors", number): ours(FEW, TableGroup(DEVICES[:number], f"apart {number}")) for number in NUMBERS
            }
            for step in sides.values():
                turn(lambda batch, step=step: float(step(batch)), batches, everybody)  # brings the rows
        found: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in sides}
        for _ in range(given.rounds):
            for key, step in sides.items():
                found[key].append(turn(lambda batch, step=step: float(step(batch)), batches, everybody))
    wall = {key: statistics.median(each for each, _ in times) for key, times in found.items()}
    core = {key: statistics.median(each for _, each in times) for key, times in found.items()}
    for key in sides:
        print(f"{key[0]} on {key[1]}: {wall[key]:.1f} ms, {core[key]:.1f} core-ms a step")
    results = [
        result(
            f"a step on {number} servers against 1", wall["messages", number], wall["messages", 1], "ms", 0.8,
            lower_is_better=True,
        )
        for number in NUMBERS[1:]
    ]  # fmt: skip
    results.append(
        result(
            f"each further server up to {NUMBERS[-1]}, against a message for each tensor", _price(core, "messages"),
            _price(core, "tensors"), "core-ms", 1 / 0.6, lower_is_better=True,
        )
    )  # fmt: skip
    return 0 if publish("servers", results) else MISSED


def _price(core: dict[tuple[str, int], float], side: str) -> float:
    return max(1e-3, (core[side, NUMBERS[-1]] - core[side, 1]) / (NUMBERS[-1] - 1))


if __name__ == "__main__":
    sys.exit(main())
