"""Bytes of a step on the network where samples have many ids: pooled on the servers, or rows that come to the worker.

Two parameter servers and a worker, in a network of their own, whose loopback counts every byte. 4,096 samples with a
bag of 50 ids each, by Zipf's law out of 10 M, width 16, mean, AdaGrad; a step looks up and updates. Sides: sums pooled
on the servers, in float32 and in bfloat16; the rows of the different ids (our own `embedding_lookup_sparse`), in both;
and a row for each id of each sample, there and back, as a plain `tf.gather` does it.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import own_network
import tensorflow as tf
from report import MISSED, publish, result
from servers import servers
from size import sized
from sparse_load import keys_of

from afo.embedding import (
    EmbeddingTape,
    TableGroup,
    embedding_lookup_sparse,
    embedding_lookup_sparse_with_distributed_aggregation,
    get_embedding_variable,
    group_embedding_lookup_sparse,
)
from afo.job import Adagrad
from afo.state.server_connections import connect

SERVERS, BAG, DIM, EXPONENT = 2, 50, 16, 1.05
SAMPLES, VALUES = sized(4096, 8), sized(10_000_000, 1000)
DEVICES = [f"/job:ps/replica:0/task:{number}/device:CPU:0" for number in range(SERVERS)]
_Step = Callable[[Any], Any]


def batches(count: int) -> list[Any]:
    """Ids: int64 [SAMPLES, BAG]."""
    generator = np.random.default_rng(1)
    ends = np.cumsum(np.arange(1, VALUES + 1, dtype=np.float64) ** -EXPONENT)
    drawn = [np.searchsorted(ends, generator.random((SAMPLES, BAG)) * ends[-1]) for _ in range(count)]
    return [tf.constant(keys_of(ranks.reshape(-1)).reshape(SAMPLES, BAG)) for ranks in drawn]


def on_tables(name: str, lookup: Callable[..., Any]) -> _Step:
    """A step on the engine."""
    group = TableGroup(DEVICES, name)
    variable = get_embedding_variable("bags", DIM, optimizer=Adagrad(), group=group)

    @tf.function(input_signature=[tf.TensorSpec([SAMPLES, BAG], tf.int64)], autograph=False)
    def step(ids: Any) -> Any:
        with EmbeddingTape() as tape:
            loss = tf.reduce_sum(tf.square(lookup(variable, ids, combiner="mean")))
        tape.gradient(loss)
        with tf.control_dependencies(tape.apply()):
            return tf.identity(loss)

    return step


def short_rows(variable: Any, ids: Any, combiner: str) -> Any:
    """Rows in bfloat16."""
    return group_embedding_lookup_sparse([variable], [ids], [combiner], wire=tf.bfloat16, concat=True)


def raw() -> _Step:
    """A row for each id. Which row does not matter to the bytes: tables have few."""
    rows = 1024
    tables = []
    for device in DEVICES:
        with tf.device(device):
            tables.append(tf.Variable(tf.random.normal([rows, DIM])))

    @tf.function(input_signature=[tf.TensorSpec([SAMPLES, BAG], tf.int64)], autograph=False)
    def step(ids: Any) -> Any:
        flat = tf.reshape(ids, [-1])
        owner = tf.cast(flat % SERVERS, tf.int32)
        asked = tf.dynamic_partition(flat, owner, SERVERS)
        found = []
        for table, device, keys in zip(tables, DEVICES, asked, strict=True):
            with tf.device(device):
                found.append(tf.gather(table, keys % rows))
        places = tf.dynamic_partition(tf.range(SAMPLES * BAG), owner, SERVERS)
        with tf.GradientTape() as tape:
            tape.watch(found)
            pooled = tf.reduce_mean(tf.reshape(tf.dynamic_stitch(places, found), [SAMPLES, BAG, DIM]), axis=1)
            loss = tf.reduce_sum(tf.square(pooled))
        done = []
        for table, device, keys, gradient in zip(tables, DEVICES, asked, tape.gradient(loss, found), strict=True):
            with tf.device(device):
                done.append(tf.raw_ops.ResourceScatterSub(resource=table.handle, indices=keys % rows, updates=gradient))
        with tf.control_dependencies(done):
            return tf.identity(loss)

    return step


def bytes_of(step: _Step, given: list[Any]) -> float:
    """Median of a step, after one that traces and connects."""
    float(step(given[0]))
    found = []
    for batch in given[1:]:
        before = own_network.bytes_sent()
        float(step(batch))
        found.append(own_network.bytes_sent() - before)
    return statistics.median(found)


def main() -> int:
    """0 if the claims hold."""
    own_network.enter()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--batches", type=int, default=sized(6, 2))
    given = batches(options.parse_args().batches)
    pooled = embedding_lookup_sparse_with_distributed_aggregation
    with servers(SERVERS) as (addresses, _), connect(tuple(addresses)):
        half = bytes_of(on_tables("half", lambda *args, **more: pooled(*args, **more, wire=tf.bfloat16)), given)
        sums = bytes_of(on_tables("sums", pooled), given)
        rows = bytes_of(on_tables("rows", embedding_lookup_sparse), given)
        short = bytes_of(on_tables("short", short_rows), given)
        every = bytes_of(raw(), given)
    claims = (("pooled", sums, 1.0), ("pooled, bfloat16 on the wire,", half, 2.0))
    results = [
        result(
            f"bytes a step, {name} against {other}", ours / 1e6, theirs / 1e6, "MB", least * more, lower_is_better=True
        )
        for name, ours, more in claims
        for other, theirs, least in (("the rows of different ids", rows, 2.2), ("raw rows", every, 6.5))
    ]
    name = "bytes a step, rows of different ids, bfloat16 against float32 on the wire"
    results.append(result(name, short / 1e6, rows / 1e6, "MB", 1.7, lower_is_better=True))
    return 0 if publish("wire", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())
