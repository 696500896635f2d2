"""FBGEMM's table-batched embedding on the CPU as a side of the benchmark of embedding tables.

Its table has dense rows and no keys: who calls knows the rows. Its fast path needs float weights, float gradients and
a table of one feature; row-wise AdaGrad, with one number of state a row, is the only optimizer that has that path.
The libraries of the wheel 1.9.0 import nothing of OpenMP: one thread works in its operators, whatever their number.
"""

import itertools
import platform
from collections.abc import Callable

import fbgemm_gpu
import numpy as np
import sparse_load as load
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
from sides import arguments, resident, serve, timed

BATCHES, WARM = 16, 3
CASES = ("lookup", "lookup_raw", "lookup_operator", "backward_rowwise_adagrad", "step_rowwise_adagrad")

Table = SplitTableBatchedEmbeddingBagsCodegen
Case = Callable[[int], list[float]]


def table_of(keys: int) -> Table:
    """A table of float rows on the CPU, filled with small numbers."""
    table = SplitTableBatchedEmbeddingBagsCodegen(
        [(keys, load.DIM, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=0.01,
        eps=1e-7,
        weights_precision=SparseType.FP32,
        output_dtype=SparseType.FP32,
        pooling_mode=PoolingMode.SUM,
        device=torch.device("cpu"),
    )
    table.init_embedding_weights_uniform(-0.05, 0.05)
    return table


class Feed:
    """The batches as tensors, the next at each call; one id a bag."""

    def __init__(self, keys: int) -> None:
        drawn = load.batches(BATCHES, seed=11, keys=keys)
        self.unique = float(np.mean([len(batch.unique_rows) for batch in drawn]))
        self._unique_rows = [torch.from_numpy(batch.unique_rows) for batch in drawn]
        self._rows = [torch.from_numpy(batch.rows) for batch in drawn]
        gradients = torch.from_numpy(load.gradients(load.IDS))
        self._gradients = [gradients[: len(rows)] for rows in self._unique_rows]
        self._offsets = [torch.arange(len(rows) + 1) for rows in self._unique_rows]
        self._all_offsets = torch.arange(load.IDS + 1)
        self._numbers = itertools.count()

    def next(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Different rows, their offsets, their gradients."""
        number = next(self._numbers) % BATCHES
        return self._unique_rows[number], self._offsets[number], self._gradients[number]

    def next_raw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows as they come in a batch, and their offsets."""
        return self._rows[next(self._numbers) % BATCHES], self._all_offsets


def warm(call: Callable[[int], object]) -> Case:
    """A case of plain calls, some of them before the time counts."""

    def case(calls: int) -> list[float]:
        timed(WARM, call)
        return timed(calls, call)

    return case


def lookup(table: Table, feed: Feed) -> Case:
    """The module's forward pass, as a model calls it."""
    return warm(lambda _: table(*feed.next()[:2]))


def lookup_operator(table: Table, feed: Feed) -> Case:
    """The C++ operator below it alone, without the module's Python."""
    operator = torch.ops.fbgemm.split_embedding_codegen_forward_cpu

    def call(_: int) -> torch.Tensor:
        rows, offsets, _gradients = feed.next()
        return operator(
            table.weights_host,
            table.weights_offsets,
            table.D_offsets,
            load.DIM,
            table.hash_size_cumsum,
            rows,
            offsets,
            PoolingMode.SUM.value,
            None,
            SparseType.FP32.as_int(),
        )

    return warm(call)


def backward(table: Table, feed: Feed) -> Case:
    """The backward pass alone, which applies row-wise AdaGrad; the forward pass before it is not timed."""

    def case(calls: int) -> list[float]:
        seconds = []
        for _ in range(WARM + calls):
            rows, offsets, gradients = feed.next()
            output = table(rows, offsets)
            seconds += timed(1, lambda _, output=output, gradients=gradients: output.backward(gradients))
        return seconds[WARM:]

    return case


def step(table: Table, feed: Feed) -> Case:
    """Forward and backward pass of different rows."""

    def call(_: int) -> None:
        rows, offsets, gradients = feed.next()
        table(rows, offsets).backward(gradients)

    return warm(call)


def main() -> None:
    """Load the table and serve its cases."""
    given = arguments(CASES, load.KEYS)
    torch.set_num_threads(given.threads)
    feed = Feed(given.keys)
    before = resident()
    table = table_of(given.keys)
    made = {
        "lookup": lookup(table, feed),
        "lookup_raw": warm(lambda _: table(*feed.next_raw())),
        "lookup_operator": lookup_operator(table, feed),
        "backward_rowwise_adagrad": backward(table, feed),
        "step_rowwise_adagrad": step(table, feed),
    }
    made["step_rowwise_adagrad"](1)
    versions = {"torch": torch.__version__, "fbgemm_gpu": fbgemm_gpu.__version__, "python": platform.python_version()}
    about = {
        "versions": versions,
        "keys": given.keys,
        "threads": given.threads,
        "resident_before": before,
        "resident_after": resident(),
        "units": {name: load.IDS if name == "lookup_raw" else feed.unique for name in CASES},
    }
    serve({name: made[name] for name in given.cases}, about, torch.set_num_threads)


if __name__ == "__main__":
    main()
