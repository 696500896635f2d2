"""A step on 1, 2, 4 and 8 parameter servers with the same load altogether: what it costs to deal tables out.

26 features with a table each, 4096 samples, ids by Zipf's law, width 16, AdaGrad: the worker finds the different ids,
asks all servers, pools, and sends gradients back. Eight server processes on this machine, of which each side uses the
first so many; sides take turns, batch by batch. Servers share the machine's cores, so more of them add no speed here:
what is seen is the price of more messages and smaller ones.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import statistics
import sys
import time

from bench_many_tables import FEW, ids_of, ours
from report import MISSED, publish, result
from servers import servers
from size import sized

from afo.params.server_connections import connect

NUMBERS = sized((1, 2, 4, 8), (1, 2))
DEVICES = [f"/job:ps/replica:0/task:{each}/device:CPU:0" for each in range(max(NUMBERS))]
BATCHES = sized(8, 1)


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(10, 1))
    given = options.parse_args()
    batches = [ids_of(FEW, seed) for seed in range(BATCHES)]
    with servers(max(NUMBERS)) as (addresses, _), connect(tuple(addresses)):
        sides = {number: ours(FEW, f"on {number}", DEVICES[:number]) for number in NUMBERS}
        seconds: dict[int, list[float]] = {number: [] for number in NUMBERS}
        for turn in range(given.rounds + 1):
            for batch in batches:
                for number, step in sides.items():
                    began = time.perf_counter()
                    float(step(batch))
                    if turn:  # the first brings the rows
                        seconds[number].append(time.perf_counter() - began)
    median = {number: statistics.median(seconds[number]) * 1e3 for number in NUMBERS}
    results = [
        result(f"a step on {number} servers against 1", median[number], median[1], "ms", 0.8, lower_is_better=True)
        for number in NUMBERS[1:]
    ]
    return 0 if publish("servers", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())
