"""One exchange with the embedding servers: the keys of all features of a batch, their rows, and later the gradients."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from afo.embedding.group import TableGroup
from afo.ops.library import load

#: As `Combiner` of afo/core/pooling.h; None leaves a row for each id.
COMBINERS = {None: 0, "sum": 1, "mean": 2, "sqrtn": 3}


class Asked(NamedTuple):
    """What one feature wants to know."""

    #: Number of the table in the group.
    table: int
    #: int64 [n].
    ids: Any
    #: int64 [samples + 1]: where each sample's ids begin; None: each id is a sample.
    bags: Any = None
    #: float32 [n], or None for ones.
    weights: Any = None
    combiner: str | None = None
    max_norm: float | None = None


class Exchange:
    """Asks each server once for the different keys of all features, whatever their number."""

    def __init__(self, group: TableGroup, asked: Sequence[Asked], *, insert: bool) -> None:
        """`insert`: a key that is new gets a row; without it, its first values alone."""
        self._ops = load()
        self._group = group
        self._asked = list(asked)
        #: Tables of the group that are asked, and each feature's number among them.
        self._numbers = sorted({each.table for each in asked})
        self._runs = [self._numbers.index(each.table) for each in asked]
        self._unique = self._ops.afo_unique(
            [each.ids for each in asked],
            run_tables=self._runs,
            num_tables=len(self._numbers),
            num_servers=group.servers,
        )
        self._handles = [group.handle(server) for server in range(group.servers)]
        answers = [self._lookup(server, insert) for server in range(group.servers)]
        #: What each server answered, flat: what gradients are taken of.
        self.values = [answer.values for answer in answers]
        self._rows = [answer.rows for answer in answers]

    def pooled(self) -> list[Any]:
        """What each feature's samples see: float32 [samples, dim]."""
        none_i, none_f = tf.zeros([0], tf.int64), tf.zeros([0], tf.float32)
        pooled = self._ops.afo_pool(
            self.values,
            self._unique.splits,
            self._unique.places,
            [none_i if each.bags is None else each.bags for each in self._asked],
            [none_f if each.weights is None else each.weights for each in self._asked],
            run_tables=self._runs,
            dims=[self._group.tables[number].dim for number in self._numbers],
            combiners=[COMBINERS[each.combiner] for each in self._asked],
            max_norms=[each.max_norm or 0.0 for each in self._asked],
        )
        return list(pooled)

    def apply(self, gradients: Sequence[Any], *, step: Any, schedule: Any) -> list[Any]:
        """Has each server apply the gradients of its `values` (None: it has none); returns the operations.

        `step` of the training goes into the rows; `schedule` multiplies the learning rates.
        """
        operations = []
        for server, gradient in enumerate(gradients):
            if gradient is None:
                continue
            with tf.device(self._group.devices[server]):
                operations.append(
                    self._ops.afo_apply_rows(
                        self._handles[server],
                        self._unique.keys[server],
                        self._unique.splits[server],
                        self._rows[server],
                        self._unique.counts[server],
                        gradient,
                        tf.cast(schedule, tf.float32),
                        tf.cast(step, tf.int64),
                        numbers=self._numbers,
                    )
                )
        return operations

    def _lookup(self, server: int, insert: bool) -> Any:
        with tf.device(self._group.devices[server]):
            return self._ops.afo_lookup_rows(
                self._handles[server],
                self._unique.keys[server],
                self._unique.splits[server],
                numbers=self._numbers,
                insert=insert,
            )


@tf.RegisterGradient("AfoPool")  # type: ignore[untyped-decorator]  # TensorFlow is untyped
def _pool_gradient(operation: Any, *gradients: Any) -> list[Any]:
    """With regard to the servers' answers, and to the weights where there are any."""
    servers, runs = operation.get_attr("num_servers"), operation.get_attr("num_runs")
    inputs = list(operation.inputs)
    values, splits = inputs[:servers], inputs[servers : 2 * servers]
    places, bags, weights = (inputs[2 * servers + i * runs : 2 * servers + (i + 1) * runs] for i in range(3))
    given = [
        tf.zeros_like(output) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, output in zip(gradients, operation.outputs, strict=True)
    ]
    attributes = {name: operation.get_attr(name) for name in ("run_tables", "dims", "combiners", "max_norms")}
    ops = load()
    summed = ops.afo_pool_gradient(given, values, splits, places, bags, weights, **attributes)
    of_weights: list[Any] = [None] * runs
    if any(weight.shape != [0] for weight in weights):
        of_weights = list(ops.afo_pool_weight_gradient(given, values, splits, places, bags, weights, **attributes))
    return [*summed, *[None] * (servers + 2 * runs), *of_weights]
