"""Wide & Deep on hash tables: for each feature a table of embeddings and one of linear weights, for each cross one.

All tables are asked at once, and the keys that a feature's two tables have in common are found and sent once.
"""

import zlib
from typing import Any, NamedTuple

import tensorflow as tf

from afo.embedding.exchange import Exchange as TableExchange
from afo.embedding.exchange import Run
from afo.embedding.initializers import Initializer
from afo.embedding.keys import Keys, unique_keys
from afo.embedding.server_tables import Table
from afo.models import wide_deep
from afo.models.layout import Layout
from afo.models.records import Parsed
from afo.optimizers import rule_of
from afo.optimizers.rows import row_optimizer_of
from afo.train import initialize, operations
from afo.train.checkpoint import CheckpointReader
from afo.train.exchange import Exchange
from afo.train.local_model import LocalHashedWideDeep
from afo.train.model import Computed, TableGradients
from afo.train.parameters import Parameters, dense_vector, parameters_of, state_variable
from afo.train.wide_deep_model import WideDeepModel

#: As `Distribution` of afo/core/initializer.h.
_CONSTANT, _TRUNCATED_NORMAL = 0, 3


class Inputs(NamedTuple):
    """A batch of B samples."""

    #: A set for each sparse feature, in the order of `Layout.sparse`, then one for each cross.
    keys: Keys
    #: [B, dense values].
    dense: Any
    #: [B, ids of a sample]: what each id counts with.
    shares: Any
    #: [B] each.
    label: Any
    weight: Any


class HashedWideDeepModel(WideDeepModel):
    """The model of `model.kind: wide_deep` with `embedding.storage: hash_table`.

    Raises SpecError where it contradicts the schema, Unsupported where the native operations cannot run.
    """

    def parameters(self, servers: int, splits: int) -> Parameters:
        """Tables `deep/<feature>`, then `wide/<feature>` and `wide/<cross>`; the state as that of a dense model."""
        operations.load()
        layout, deep_rule = self._layout, rule_of(self._job.optimizer.deep_or_default)
        dense = dense_vector(layout.dense_size, deep_rule, servers)
        statistics = state_variable("statistics", (3, layout.dense_width), "float64")
        return parameters_of(
            (), dense, layout.weights, (statistics,), splits,
            with_copies=self._job.checkpoint.keeps_survivors, embeddings=self._tables(),
        )  # fmt: skip

    def initialize(self, parameters: Parameters) -> None:
        """Embeddings normal, linear weights zero; each row when its key is first met."""
        vector = wide_deep.initial_vector(self._layout, self._job.data.shuffle.seed)
        initialize.create(parameters, {}, vector, {})

    def encode(self, parsed: Parsed, servers: int) -> Any:
        """Find the different keys and sort them by server."""
        encoded = self._encoder.keys(parsed.features)
        ids = [tf.reshape(each, [-1]) for each in (*encoded.keys, *encoded.crosses)]
        return Inputs(
            keys=unique_keys(ids, range(len(ids)), servers),
            dense=encoded.dense,
            shares=encoded.shares,
            label=parsed.labels[:, 0],
            weight=parsed.weight,
        )

    def compute(self, inputs: Any, exchange: Exchange, state: tuple[Any, ...]) -> Computed:
        """Logistic loss, weighted by the samples' weights."""
        own = wide_deep.batch_statistics(inputs.dense)
        dense = wide_deep.standardised(inputs.dense, state[0] + own)
        asked = _Asked(self._layout, inputs.keys, exchange)
        vector = tf.identity(exchange.vector())
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([vector, asked.values])
            embeddings, wide = asked.looked_up(tf.shape(inputs.label)[0])
            log_odds = wide_deep.logits(self._layout, embeddings, wide, dense, vector, inputs.shares)
            loss = tf.reduce_sum(inputs.weight * wide_deep.sample_losses(inputs.label, log_odds))
        total_weight = tf.maximum(tf.reduce_sum(inputs.weight), 1e-12)
        of_vector, of_rows = tape.gradient(loss, [vector, asked.values])
        return Computed(
            loss=loss / total_weight,
            rows=(),
            vector=of_vector / total_weight,
            added=(own,),
            embeddings=asked.gradients(of_rows),
        )

    def local(self, reader: CheckpointReader) -> LocalHashedWideDeep:
        """Out of a checkpoint."""
        return LocalHashedWideDeep(self._layout, self._encoder, reader)

    def _tables(self) -> list[Table]:
        layout, optimizer = self._layout, self._job.optimizer
        features = [column.feature for column in layout.sparse]
        deep_rule, wide_rule = row_optimizer_of(optimizer.deep_or_default), row_optimizer_of(optimizer.wide)
        tables = []
        if layout.has_deep:
            for name in features:
                first = Initializer(_TRUNCATED_NORMAL, 0.0, layout.embedding_scale, self._seed(name))
                tables.append(Table(f"deep/{name}", layout.dim, deep_rule, first))
        if layout.has_wide:
            zeros = Initializer(_CONSTANT, 0.0, 0.0, 0)
            tables += [Table(f"wide/{name}", 1, wide_rule, zeros) for name in (*features, *layout.cross_names)]
        return tables

    def _seed(self, feature: str) -> int:
        """Features are told apart: equal ids of two begin with different rows, whatever other features there are."""
        return int(self._job.data.shuffle.seed) << 32 | zlib.crc32(feature.encode())


class _Asked:
    """What a batch asks of the tables: an exchange for the deep part and one for the wide part, if there are any."""

    def __init__(self, layout: Layout, keys: Keys, exchange: Exchange) -> None:
        self._layout = layout
        self._deep = self._wide = None
        group = exchange.parameters.embeddings
        features, crosses = len(layout.sparse), len(layout.crosses)
        if group is None:  # dense features alone
            return
        if layout.has_deep and features:
            self._deep = TableExchange(group, range(features), keys, _runs(features), insert=True)
        if layout.has_wide and features + crosses:
            first = features if layout.has_deep else 0
            numbers = range(first, first + features + crosses)
            self._wide = TableExchange(group, numbers, keys, _runs(features + crosses), insert=True)

    @property
    def values(self) -> list[list[Any]]:
        """What gradients are taken of."""
        return [each.values for each in self._exchanges]

    def looked_up(self, size: Any) -> tuple[Any, Any]:
        """[B, ids, dim] and [B, ids + crosses]; None for a part that the model lacks."""
        layout = self._layout
        embeddings = wide = None
        counts = [column.values for column in layout.sparse]
        if layout.has_deep:
            embeddings = _joined(self._deep, size, counts, layout.dim)
        if layout.has_wide:
            wide = _joined(self._wide, size, counts + [1] * len(layout.crosses), 1)[:, :, 0]
        return embeddings, wide

    def gradients(self, values: list[list[Any]]) -> tuple[TableGradients, ...]:
        """Those of `values`, for the servers."""
        return tuple(TableGradients(each, tuple(parts)) for each, parts in zip(self._exchanges, values, strict=True))

    @property
    def _exchanges(self) -> list[TableExchange]:
        return [each for each in (self._deep, self._wide) if each is not None]


def _runs(count: int) -> list[Run]:
    return [Run(number) for number in range(count)]


def _joined(exchange: TableExchange | None, size: Any, counts: list[int], dim: int) -> Any:
    """[B, values of all features, dim]."""
    if exchange is None:
        return tf.zeros([size, 0, dim])
    return tf.reshape(exchange.joined(), [size, sum(counts), dim])
