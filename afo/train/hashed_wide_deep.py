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
from afo.optimizers.rows import row_optimizer_of
from afo.train import initialize, operations
from afo.train.checkpoint import CheckpointReader
from afo.train.exchange import Exchange
from afo.train.local_model import LocalHashedWideDeep
from afo.train.model import Computed, LocalModel, TableGradients
from afo.train.parameters import Parameters
from afo.train.policies import eviction_of, filter_of
from afo.train.table_form import TRAINED, TableForm
from afo.train.wide_deep_model import (
    Samples,
    WideDeepModel,
    samples_of,
    standardised_by_all,
    total_weight_of,
    weighted_loss,
)

#: As `Distribution` of afo/core/initializer.h.
_CONSTANT, _TRUNCATED_NORMAL = 0, 3


class Inputs(NamedTuple):
    """A batch of B samples."""

    #: A set for each sparse feature, in the order of `Layout.sparse`, then one for each cross.
    keys: Keys
    samples: Samples


class HashedWideDeepModel(WideDeepModel):
    """The model of `model.kind: wide_deep` with `embedding.storage: hash_table`.

    Raises SpecError where it contradicts the schema, Unsupported where the native operations cannot run.
    """

    def parameters(self, servers: int, splits: int) -> Parameters:
        """Tables `deep/<feature>`, then `wide/<feature>` and `wide/<cross>`; the state as that of a dense model."""
        operations.load()
        return self._with_tables(servers, splits, embeddings=self._tables())

    def initialize(self, parameters: Parameters) -> None:
        """Embeddings normal, linear weights zero; each row when its key is first met."""
        vector = wide_deep.initial_vector(self._layout, self._job.data.shuffle.seed)
        initialize.create(parameters, {}, vector, {})

    def encode(self, parsed: Parsed, servers: int) -> Any:
        """Find the different keys and sort them by server."""
        encoded = self._encoder.keys(parsed.features)
        ids = [tf.reshape(each, [-1]) for each in (*encoded.keys, *encoded.crosses)]
        return Inputs(unique_keys(ids, range(len(ids)), servers), samples_of(encoded, parsed))

    def compute(self, inputs: Any, exchange: Exchange, state: tuple[Any, ...]) -> Computed:
        """Logistic loss, weighted by the samples' weights."""
        own, dense = standardised_by_all(inputs.samples, state)
        asked = _Asked(self._layout, inputs.keys, exchange)
        vector = tf.identity(exchange.vector())
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([vector, asked.values])
            embeddings, wide = asked.looked_up(tf.shape(inputs.samples.label)[0])
            log_odds = wide_deep.logits(self._layout, embeddings, wide, dense, vector, inputs.samples.shares)
            loss = weighted_loss(inputs.samples, log_odds)
        total_weight = total_weight_of(inputs.samples)
        of_vector, of_rows = tape.gradient(loss, [vector, asked.values])
        return Computed(
            loss=loss / total_weight,
            rows=(),
            vector=of_vector / total_weight,
            added=(own,),
            embeddings=asked.gradients(of_rows),
        )

    def local(self, reader: CheckpointReader, form: TableForm = TRAINED) -> LocalModel:
        """Out of a checkpoint."""
        absent = self._job.model.embedding.filter.default_value
        return LocalHashedWideDeep(self._layout, self._encoder, reader, absent, form)

    def _tables(self) -> list[Table]:
        layout, optimizer = self._layout, self._job.optimizer
        deep_rule = row_optimizer_of(optimizer.deep_or_default, optimizer.embedding)
        wide_rule = row_optimizer_of(optimizer.wide)
        zeros = Initializer(_CONSTANT, 0.0, 0.0, 0)
        embedding = self._job.model.embedding
        admitted, evicted = filter_of(embedding), eviction_of(embedding)
        tables = []
        for name, column in zip(layout.deep_tables, layout.sparse, strict=False):
            first = Initializer(_TRUNCATED_NORMAL, 0.0, layout.embedding_scale, self._seed(column.feature))
            tables.append(Table(name, layout.dim, deep_rule, first, filter=admitted, eviction=evicted))
        linear = Table("", 1, wide_rule, zeros, filter=admitted._replace(default_value=0.0), eviction=evicted)
        return tables + [linear._replace(name=name) for name in layout.wide_tables]

    def _seed(self, feature: str) -> int:
        """Features are told apart: equal ids of two begin with different rows, whatever other features there are."""
        return int(self._job.data.shuffle.seed) << 32 | zlib.crc32(feature.encode())


class _Asked:
    """What a batch asks of the tables: an exchange for the deep part and one for the wide part, if there are any."""

    def __init__(self, layout: Layout, keys: Keys, exchange: Exchange) -> None:
        self._layout = layout
        self._deep = self._wide = None
        group = exchange.parameters.embeddings
        deep, wide = len(layout.deep_tables), len(layout.wide_tables)
        if group is None:  # dense features alone
            return
        if deep:
            self._deep = TableExchange(group, range(deep), keys, _runs(deep), insert=True)
        if wide:
            self._wide = TableExchange(group, range(deep, deep + wide), keys, _runs(wide), insert=True)

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
