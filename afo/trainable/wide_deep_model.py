"""Wide & Deep as the trainer knows a model: two tables and a dense vector, whatever the number of features.

The loss of a table's row is the sum over its samples, as if they came one by one, so that a rare id learns as quickly
in a large batch as in a small one; dense weights follow the mean over the batch, and a short batch by its share.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from afo.checkpoint.restore import CheckpointReader
from afo.checkpoint.tensor_map import Section, sections_of
from afo.data.schema import Schema
from afo.embedding.server_tables import Table
from afo.job import Job
from afo.models import wide_deep
from afo.models.encode import Encoder
from afo.models.feature_layout import layout_of
from afo.models.parser import Parsed
from afo.optimizers import rate_at, rule_of
from afo.state import initialize
from afo.state.parameters import Parameter, Parameters, dense_vector, parameters_of, state_variable, table
from afo.state.step_exchange import Exchange, Route, RowGradient, route
from afo.trainable.local_model import LocalWideDeep
from afo.trainable.model_protocol import Computed, LocalModel, Pulled, share_of_batch
from afo.trainable.served.table_form import TRAINED, TableForm


class Samples(NamedTuple):
    """What is known of B samples beside their rows, wherever these lie."""

    #: [B, dense values].
    dense: Any
    #: [B, ids of a sample]: what each id counts with.
    shares: Any
    #: [B] each.
    label: Any
    weight: Any


class Inputs(NamedTuple):
    """A batch of B samples."""

    ids: Route
    crosses: Route
    samples: Samples


class Looked(NamedTuple):
    """The parameters of every id of a batch: [B, ids, dim], [B, ids], [B, crosses], and all dense weights.

    The first is None without a deep part, the next two without a wide part.
    """

    embeddings: Any
    linear: Any
    crosses: Any
    vector: Any


class WideDeepModel:
    """The model of `model.kind: wide_deep`. Raises SpecError where it contradicts the schema."""

    def __init__(self, schema: Schema, job: Job) -> None:
        self.labels = job.data.labels
        self.warnings: tuple[str, ...] = ()
        self._job = job
        self._layout = layout_of(schema, job.model)
        self._encoder = Encoder(self._layout)

    def parameters(self, servers: int, splits: int) -> Parameters:
        """Tables `deep` and `wide`; the state is `statistics` [3, dense values], as `wide_deep.standardise` has it."""
        layout, optimizer = self._layout, self._job.optimizer
        deep_rule, wide_rule = rule_of(optimizer.deep_or_default), rule_of(optimizer.wide)
        tables: list[Parameter] = []
        if layout.has_deep:
            tables.append(table("deep", layout.deep_rows, layout.dim, deep_rule, servers))
        if layout.has_wide:
            tables.append(table("wide", layout.wide_rows, 1, wide_rule, servers))
        return self._with_tables(servers, splits, tables)

    def initialize(self, parameters: Parameters) -> None:
        """Embeddings normal, linear weights zero."""
        seed, layout = self._job.data.shuffle.seed, self._layout
        draws = {"deep": initialize.normal(layout.embedding_scale, seed), "wide": initialize.zeros}
        vector = wide_deep.initial_vector(layout, seed)
        initialize.create(parameters, draws, vector, {})

    def sections(self, parameters: Parameters) -> tuple[Section, ...]:
        """By feature, cross and layer."""
        return sections_of(self._layout)

    def encode(self, parsed: Parsed, servers: int) -> Inputs:
        """Hash, find the different ids, sort them by server."""
        encoded = self._encoder(parsed.features)
        return Inputs(
            ids=route(tf.reshape(encoded.ids, [-1]), servers),
            crosses=route(tf.reshape(encoded.crosses, [-1]), servers),
            samples=Samples(encoded.dense, encoded.shares, parsed.labels[:, 0], parsed.weight),
        )

    def rate(self, step: Any, first_step: Any, epochs: Any) -> Any:
        """The job's schedule."""
        return rate_at(self._job.optimizer.schedule, step, first_step)

    def ask(self, inputs: Inputs, exchange: Exchange) -> Any:
        """The rows of both tables."""
        return AskedRows(inputs, exchange)

    def compute(self, inputs: Inputs, pulled: Pulled, exchange: Exchange) -> Computed:
        """Logistic loss, weighted by the samples' weights."""
        samples = inputs.samples
        own, dense = wide_deep.standardise_batch(samples.dense, pulled.state[0])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            # The gradients are taken of each id's own copy and summed afterwards: quicker than through tf.gather.
            looked_up = self._spread_rows(inputs, pulled)
            present = [value for value in looked_up if value is not None]
            tape.watch(present)
            log_odds = self._log_odds(looked_up, dense, samples.shares)
            loss = wide_deep.weighted_loss(samples.label, samples.weight, log_odds)
        found = iter(tape.gradient(loss, present))
        gradients = Looked(*(None if value is None else next(found) for value in looked_up))
        return Computed(
            loss=loss / total_weight_of(samples),
            rows=pulled.asked.sum_gradients(inputs, gradients),
            vector=self._mean_gradient(samples, gradients.vector),
            added=(own,),
        )

    def try_answers(self, inputs: Any, parameters: Parameters) -> None:
        """It answers by a sigmoid, and has no metrics of its own."""

    def numbers(self, inputs: Any) -> dict[str, Any]:
        """The dense features, label and weight."""
        columns = self._layout.dense
        parts = tf.split(inputs.samples.dense, [column.width for column in columns], axis=1) if columns else []
        named = {column.feature: part for column, part in zip(columns, parts, strict=True)}
        return {**named, **_label_and_weight(self._job, inputs.samples)}

    def local(self, reader: CheckpointReader, form: TableForm = TRAINED) -> LocalModel:
        """Out of a checkpoint."""
        return LocalWideDeep(self._layout, self._encoder, reader, form)

    def _with_tables(
        self, servers: int, splits: int, tables: Sequence[Parameter] = (), embeddings: Sequence[Table] = ()
    ) -> Parameters:
        """All parameters of the model, whatever its tables are."""
        layout = self._layout
        dense = dense_vector(layout.dense_size, rule_of(self._job.optimizer.deep_or_default), servers)
        statistics = state_variable("statistics", (3, layout.dense_width), "float64")
        return parameters_of(
            tuple(tables), dense, layout.weights, (statistics,), splits,
            with_copies=self._job.checkpoint.keeps_survivors, embeddings=embeddings,
        )  # fmt: skip

    def _mean_gradient(self, samples: Samples, summed: Any) -> Any:
        """Divide the gradient of `weighted_loss` by the weight of a whole batch whose samples weigh as these do."""
        return summed / (total_weight_of(samples) / share_of_batch(samples.label, self._job.data.batch_size))

    def _spread_rows(self, inputs: Inputs, pulled: Pulled) -> Looked:
        asked: AskedRows = pulled.asked
        layout, size = self._layout, tf.shape(inputs.samples.label)[0]

        def spread(values: Any, places: Any, shape: list[Any]) -> Any:
            return None if values is None else tf.reshape(tf.gather(values, places), [size, *shape])

        return Looked(
            embeddings=spread(asked.embeddings, inputs.ids.places, [layout.ids_per_sample, layout.dim]),
            linear=spread(asked.linear, inputs.ids.places, [layout.ids_per_sample]),
            crosses=spread(asked.crosses, inputs.crosses.places, [len(layout.crosses)]),
            vector=tf.identity(pulled.vector),
        )

    def _log_odds(self, looked_up: Looked, dense: Any, shares: Any) -> Any:
        wide = None if looked_up.linear is None else tf.concat([looked_up.linear, looked_up.crosses], axis=1)
        return wide_deep.logits(self._layout, looked_up.embeddings, wide, dense, looked_up.vector, shares)


def total_weight_of(samples: Samples) -> Any:
    """What a mean is divided by."""
    return tf.maximum(tf.reduce_sum(samples.weight), 1e-12)


class AskedRows:
    """The rows of a batch's n different ids and m different crosses.

    `embeddings` [n, dim] is None without a deep part, `linear` [n] and `crosses` [m] without a wide part.
    """

    def __init__(self, inputs: Inputs, exchange: Exchange) -> None:
        self._id_sizes = [tf.size(rows) for rows in inputs.ids.rows]
        self._cross_sizes = [tf.size(rows) for rows in inputs.crosses.rows]
        self._rows: dict[str, tuple[Any, ...]] = _place_rows(inputs.ids, inputs.crosses, exchange.devices)
        self._tables = {parameter.name: parameter for parameter in exchange.parameters.tables}
        self.embeddings = self.linear = self.crosses = None
        if "deep" in self._tables:
            self.embeddings = exchange.rows(self._tables["deep"], self._rows["deep"])
        if "wide" in self._tables:
            values = tf.reshape(exchange.rows(self._tables["wide"], self._rows["wide"]), [-1])
            self.linear, self.crosses = self._separate(values)

    def sum_gradients(self, inputs: Inputs, gradients: Looked) -> tuple[RowGradient, ...]:
        """Gradients of each different id, summed over the samples."""
        found = []
        if gradients.embeddings is not None:
            values = _sum_by_id(gradients.embeddings, inputs.ids.places, self.embeddings)
            found.append(RowGradient(self._tables["deep"], self._rows["deep"], values))
        if gradients.linear is not None:
            linear = tf.split(_sum_by_id(gradients.linear, inputs.ids.places, self.linear), self._id_sizes)
            crosses = tf.split(_sum_by_id(gradients.crosses, inputs.crosses.places, self.crosses), self._cross_sizes)
            values = tf.concat([part for pair in zip(linear, crosses, strict=True) for part in pair], axis=0)
            found.append(RowGradient(self._tables["wide"], self._rows["wide"], values[:, tf.newaxis]))
        return tuple(found)

    def _separate(self, values: Any) -> tuple[Any, Any]:
        """Ids and crosses out of a tensor that holds them server by server."""
        sizes = [size for pair in zip(self._id_sizes, self._cross_sizes, strict=True) for size in pair]
        parts = tf.split(values, sizes)
        return tf.concat(parts[0::2], axis=0), tf.concat(parts[1::2], axis=0)


def _place_rows(ids: Route, crosses: Route, devices: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The rows of both tables on their servers. Those of the ids are sent once: they are the same in both."""
    deep, wide = [], []
    for device, id_rows, cross_rows in zip(devices, ids.rows, crosses.rows, strict=True):
        with tf.device(device):
            deep.append(tf.identity(id_rows))
            wide.append(tf.concat([deep[-1], cross_rows], axis=0))
    return {"deep": tuple(deep), "wide": tuple(wide)}


def _sum_by_id(gradient: Any, places: Any, like: Any) -> Any:
    flat = tf.reshape(gradient, tf.concat([[-1], tf.shape(like)[1:]], axis=0))
    return tf.math.unsorted_segment_sum(flat, places, tf.shape(like)[0])


def _label_and_weight(job: Job, samples: Samples) -> dict[str, Any]:
    weight = {} if job.data.weight is None else {job.data.weight: samples.weight}
    return {job.data.labels[0]: samples.label, **weight}
