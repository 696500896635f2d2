"""Wide & Deep on hash tables: for each feature a table of embeddings and one of linear weights, for each cross one.

All tables are asked at once, and the keys that a feature's two tables have in common are found and sent once.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from msgspec.structs import replace

from afo.checkpoint.restore import CheckpointReader
from afo.embedding.exchange import Run, unique_keys
from afo.embedding.initializers import Initializer
from afo.embedding.pooled_exchange import bag_of, server_bags
from afo.embedding.server_tables import Table
from afo.models import wide_deep
from afo.models.encode import EncodedKeys
from afo.models.parser import Parsed
from afo.models.server_pooling import pooled_on_servers
from afo.ops import library
from afo.state import initialize
from afo.state.parameters import Parameters
from afo.state.step_exchange import Exchange
from afo.tables.slot_map import SlotMap
from afo.trainable.asked_tables import AskedTables, Inputs, Lists
from afo.trainable.local_model import LocalHashedWideDeep
from afo.trainable.model_protocol import Computed, LocalModel, Pulled, TableGradients
from afo.trainable.served.table_form import TRAINED, TableForm
from afo.trainable.wide_deep_model import Samples, WideDeepModel, total_weight_of


class HashedWideDeepModel(WideDeepModel):
    """The model of `model.kind: wide_deep` with `embedding.storage: hash_table`.

    Raises SpecError where it contradicts the schema, Unsupported where the native operations cannot run.
    """

    def parameters(self, servers: int, splits: int) -> Parameters:
        """Tables `deep/<feature>`, then `wide/<feature>` and `wide/<cross>`; the state as that of a dense model."""
        library.load_for_job()
        return self._with_tables(servers, splits, embeddings=self._tables())

    def initialize(self, parameters: Parameters) -> None:
        """Embeddings normal, linear weights zero; each row when its key is first met."""
        vector = wide_deep.initial_vector(self._layout, self._job.data.shuffle.seed)
        initialize.create(parameters, {}, vector, {})

    def encode(self, parsed: Parsed, servers: int) -> Any:
        """Find the different keys and sort them by server."""
        encoded, far = self._encoder.keys(parsed.features), pooled_on_servers(self._layout, self._job, servers)
        near = [place for place in range(len(self._layout.sparse)) if place not in far]
        ids = [tf.reshape(keys, [-1]) for keys in (*(encoded.keys[place] for place in near), *encoded.crosses)]
        shares = self._shares_of(near, encoded.shares) if far and self._layout.has_lists else encoded.shares
        samples = Samples(encoded.dense, shares, parsed.labels[:, 0], parsed.weight)
        slots = SlotMap.equal(servers)
        return Inputs(unique_keys(ids, range(len(ids)), slots), self._lists(encoded, parsed, far, slots), samples)

    def ask(self, inputs: Any, exchange: Exchange) -> AskedTables:
        """All tables at once."""
        return AskedTables(self._layout, inputs, exchange, self._job.model.embedding.wire)

    def compute(self, inputs: Any, pulled: Pulled, exchange: Exchange) -> Computed:
        """Logistic loss, weighted by the samples' weights."""
        samples, asked = inputs.samples, pulled.asked
        own, dense = wide_deep.standardise_batch(samples.dense, pulled.state[0])
        vector = tf.identity(pulled.vector)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(vector)
            embeddings, linear = asked.look_up(samples, tape)
            log_odds = wide_deep.log_odds(self._layout, embeddings, linear, dense, vector)
            loss = wide_deep.weighted_loss(samples.label, samples.weight, log_odds)
        of_vector, *of_rows = tape.gradient(loss, [vector, *(exchange.values for exchange in asked.exchanges)])
        return Computed(
            loss=loss / total_weight_of(samples),
            rows=(),
            vector=self._mean_gradient(samples, of_vector),
            added=(own,),
            embeddings=tuple(map(TableGradients, asked.exchanges, map(tuple, of_rows))),
        )

    def _shares_of(self, places: Sequence[int], shares: Any) -> Any:
        by_column = tf.split(shares, [column.values for column in self._layout.sparse], axis=1)
        return tf.concat([by_column[place] for place in places] or [shares[:, :0]], axis=1)

    def _lists(self, encoded: EncodedKeys, parsed: Parsed, far: Sequence[int], slots: SlotMap) -> Lists:
        bags = {
            place: bag_of(encoded.keys[place], *self._encoder.weigh_values(self._layout.sparse[place], parsed.features))
            for place in far
        }
        keys = unique_keys([bag.ids for bag in bags.values()], range(len(bags)), slots)
        runs = [Run(number, bag.splits, bag.weights) for number, bag in enumerate(bags.values())]
        weighed = {place: bag.weights for place, bag in bags.items() if bag.weights is not None}
        return Lists(keys, server_bags(keys, runs), {place: bag.splits for place, bag in bags.items()}, weighed)

    def local(self, reader: CheckpointReader, form: TableForm = TRAINED) -> LocalModel:
        """Out of a checkpoint."""
        settings = self._job.model.embedding
        absent = {
            name: settings.filter_of(column.feature).default_value
            for name, column in zip(self._layout.deep_tables, self._layout.sparse, strict=False)
        }
        return LocalHashedWideDeep(self._layout, self._encoder, reader, absent, form)

    def _tables(self) -> list[Table]:
        layout, optimizer = self._layout, self._job.optimizer
        deep_rule, clipping = optimizer.of_rows(optimizer.deep_or_default), optimizer.row_clipping
        wide_rule = optimizer.wide.chosen
        zeros = Initializer("constant", seed=0, value=0.0)
        settings, tables = self._job.model.embedding, []
        for name, column in zip(layout.deep_tables, layout.sparse, strict=False):
            first = Initializer("truncated_normal", self._seed(column.feature), stddev=layout.embedding_scale)
            admitted, evicted = settings.filter_of(column.feature), settings.evict_of(column.feature)
            tables.append(
                Table(
                    name,
                    layout.dim,
                    deep_rule,
                    first,
                    filter=admitted,
                    eviction=evicted,
                    clipping=clipping,
                    value_dtype=settings.value_dtype,
                )
            )
        names = (*(column.feature for column in layout.sparse), *layout.cross_names)
        for name, feature in zip(layout.wide_tables, names, strict=False):
            admitted = replace(settings.filter_of(feature), default_value=0.0)
            evicted = settings.evict_of(feature)
            tables.append(Table(name, 1, wide_rule, zeros, filter=admitted, eviction=evicted))
        return tables

    def _seed(self, feature: str) -> int:
        """Features are told apart: equal ids of two begin with different rows, whatever other features there are."""
        return int(self._job.data.shuffle.seed) << 32 | zlib.crc32(feature.encode())
