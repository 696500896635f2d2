"""An exchange whose servers pool: a sum for each sample comes back instead of a row for each different id."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from afo.embedding.exchange import Asked
from afo.embedding.group import TableGroup
from afo.embedding.keys import unique_keys
from afo.ops.library import load


class PooledExchange:
    """For bags of many ids, where the rows would be more bytes than the sums. Each server is asked once.

    Weights have no gradient here: their rows never come to the worker.
    """

    def __init__(self, group: TableGroup, asked: Sequence[Asked], *, insert: bool, wire: Any = tf.float32) -> None:
        """`wire`: bfloat16 halves what sums and gradients cost on the network; servers compute in float32."""
        self._ops = load()
        self._group = group
        self._asked = list(asked)
        self._numbers = sorted({each.table for each in asked})
        sets = [self._numbers.index(each.table) for each in asked]
        self._attributes = {
            "numbers": self._numbers,
            "run_tables": sets,
            "max_norms": [each.max_norm or 0.0 for each in asked],
        }
        none_i, none_f = tf.zeros([0], tf.int64), tf.zeros([0], tf.float32)
        self._unique = unique_keys([each.ids for each in asked], sets, group.servers)
        self._bags = self._ops.afo_bags_by_server(
            self._unique.splits,
            self._unique.places,
            self._unique.lengths,
            [none_i if each.bags is None else each.bags for each in asked],
            [none_f if each.weights is None else each.weights for each in asked],
        )
        self._handles = [group.handle(server) for server in range(group.servers)]
        answers = []
        for server, device in enumerate(group.devices):
            with tf.device(device):
                answers.append(
                    self._ops.afo_pool_rows(*self._inputs(server), insert=insert, T=wire, **self._attributes)
                )
        #: What each server answered, flat: what gradients are taken of.
        self.values = [answer.pooled for answer in answers]
        self._rows = [answer.rows for answer in answers]

    def pooled(self) -> list[Any]:
        """What each feature's samples see: float32 [samples, dim]."""
        flat = tf.add_n([tf.cast(values, tf.float32) for values in self.values])
        dims = [self._group.tables[each.table].dim for each in self._asked]
        counts = tf.unstack(self._bags.samples, num=len(dims))
        parts = tf.split(flat, [count * dim for count, dim in zip(counts, dims, strict=True)], num=len(dims))
        return [
            tf.reshape(part, [-1, dim]) * _share(each) for part, dim, each in zip(parts, dims, self._asked, strict=True)
        ]

    def apply(self, gradients: Sequence[Any], *, step: Any, schedule: Any) -> list[Any]:
        """As `afo.embedding.exchange.Exchange.apply`."""
        operations = []
        for server, gradient in enumerate(gradients):
            if gradient is None:
                continue
            with tf.device(self._group.devices[server]):
                operations.append(
                    self._ops.afo_apply_pooled(
                        *self._inputs(server),
                        self._rows[server],
                        self._unique.counts[server],
                        gradient,
                        tf.cast(schedule, tf.float32),
                        tf.cast(step, tf.int64),
                        **self._attributes,
                    )
                )
        return operations

    def _inputs(self, server: int) -> tuple[Any, ...]:
        """What both operations of a server begin with."""
        unique, bags = self._unique, self._bags
        return (
            self._handles[server], unique.keys[server], unique.splits[server], bags.samples, bags.lengths[server],
            bags.near[server], bags.far[server], bags.server_weights[server],
        )  # fmt: skip


def _share(asked: Asked) -> Any:
    """What a sample's sum is multiplied by: [samples, 1], or 1."""
    if asked.combiner in (None, "sum") or asked.bags is None:
        return 1.0
    weights = tf.ones_like(asked.ids, tf.float32) if asked.weights is None else tf.stop_gradient(asked.weights)
    power = 1 if asked.combiner == "mean" else 2
    total = tf.RaggedTensor.from_row_splits(weights**power, asked.bags, validate=False)
    divisor = tf.reduce_sum(total, axis=1) ** (1 / power)
    return tf.math.divide_no_nan(1.0, divisor)[:, tf.newaxis]
