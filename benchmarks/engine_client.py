"""A client of parameter servers of one engine, as a side of a benchmark (`sides`): what it asks, without a model.

`engine_client.py ENGINE ADDRESSES KIND COUNTS --threads N`, where ENGINE may be `none`: tables in this process, so what
the tables alone take. A case of KIND for each of COUNTS: `rows on N`, a pull and a push of ROWS rows of N servers and
nothing else, bfloat16 on the network; `step on N`, the step of `bench_servers`, whose 26 tables are dealt out.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf
from bench_many_tables import FEW, ids_of, ours
from servers import connect
from sides import serve, timed
from size import sized

from afo.embedding import TableGroup, get_embedding_variable
from afo.embedding.exchange import Exchange, Keys, Run
from afo.job import Adagrad
from afo.state.variables import asking_client

ROWS, DIM = sized(40_000, 40), 16
BATCHES, WARM = sized(8, 1), 2
_Call = Callable[[Any], Any]


def group_of(engine: str, name: str, count: int) -> TableGroup:
    """Tables on the first `count` servers."""
    devices = [f"/job:ps/replica:0/task:{number}/device:CPU:0" for number in range(count)]
    here = ["/device:CPU:0"] * count
    return TableGroup(devices if engine == "tensorflow" else here, name, asked=asking_client())


def rows_of(group: TableGroup) -> _Call:
    """Pull rows, and push as many values back."""
    get_embedding_variable("rows", DIM, optimizer=Adagrad(), group=group)
    count = ROWS // group.servers

    @tf.function(input_signature=[tf.TensorSpec([ROWS], tf.int64)], autograph=False)
    def step(keys: Any) -> Any:
        splits, counts = tf.constant([0, count]), tf.ones([count], tf.int32)
        parts = tf.split(keys, group.servers)
        of_servers = Keys(tuple(parts), (splits,) * len(parts), (counts,) * len(parts), (), ())
        exchange = Exchange(group, [0], of_servers, [Run(0)], insert=True, wire=tf.bfloat16)
        group.as_servers.pull([exchange])
        pushed = exchange.apply([tf.identity(each) for each in exchange.values], step=1, schedule=1.0)
        with tf.control_dependencies(pushed):
            return tf.size(exchange.values[0])

    return step


def case_of(call: _Call, batches: Sequence[Any]) -> Callable[[int], list[float]]:
    """Batch after batch; the rows are there before the first is timed."""
    for batch in list(batches) * WARM:
        call(batch)
    turn = itertools.cycle(batches)
    return lambda calls: timed(calls, lambda _: call(next(turn)).numpy())


def main() -> None:
    """Serve the cases."""
    engine, addresses, kind, counts = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    drawn = np.random.default_rng(3).permutation(ROWS * 4).reshape(4, ROWS)
    keys = [tf.constant(batch, tf.int64) for batch in drawn]
    ids = [ids_of(FEW, seed) for seed in range(BATCHES)]
    with connect(tuple(addresses), engine) if addresses else nullcontext():
        cases: dict[str, Callable[[int], list[float]]] = {}
        for count in counts:
            name = f"{kind} on {count}"
            group = group_of(engine, name, count)
            cases[name] = case_of(rows_of(group), keys) if kind == "rows" else case_of(ours(FEW, group), ids)
        serve(cases, {"resident_before": 0, "resident_after": 0})


if __name__ == "__main__":
    main()
