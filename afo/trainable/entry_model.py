"""A user's own model as the trainer knows a model: a table for each `afo.layers.Embedding`, a vector of all weights.

A step pulls the vector into the model's variables, runs the model forward and backward, and pushes the gradients of the
batch's mean loss, or the share of them that a short batch has. What the model changes by itself (moving averages of
BatchNormalization) lies on the servers as well: a step adds what it changed, so that the changes of all workers add up.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf
from msgspec import UNSET

from afo.checkpoint.restore import CheckpointReader
from afo.checkpoint.tensor_map import Section, whole_hash_table, whole_state, whole_table, whole_weight
from afo.data.schema import Schema
from afo.embedding.initializers import initializer_of
from afo.embedding.server_tables import Table
from afo.errors import DataError, ModelError, Unsupported
from afo.job import Filter, Job, Sgd
from afo.layers.layer_lookup import answered_by
from afo.models.parser import DTYPE, Parsed
from afo.ops import library
from afo.optimizers import rate_at, rule_of
from afo.optimizers.compiled import Compiled, compiled_of
from afo.state import initialize
from afo.state.parameters import Parameters, dense_vector, parameters_of, state_variable, table
from afo.state.step_exchange import Exchange
from afo.tables.merged_rows import MergedRows
from afo.tables.saved_tables import Rows
from afo.trainable.gradient_clipping import clip_gradients
from afo.trainable.hashed_lookup import HashedLookup
from afo.trainable.keras_initializers import draw_of
from afo.trainable.layer_exchange import ways_of
from afo.trainable.lookups import LocalLookup, ServerLookup
from afo.trainable.model_protocol import Computed, Pulled, share_of_batch
from afo.trainable.model_resources import resources
from afo.trainable.own_module import OwnModule
from afo.trainable.served.table_form import TRAINED, TableForm
from afo.trainable.user_item_own import UserItemOwn

#: Bytes of a table of Keras' own above which it slows each step.
LARGE_BYTES = 16 << 20


class Inputs(NamedTuple):
    """A batch of B samples: the features that the model reads [B, values], labels [B, labels], weight [B]."""

    features: dict[str, Any]
    labels: Any
    weight: Any


class EntryModel:
    """The model of `model.entry`. Raises what `OwnModule` raises, and Unsupported for its optimizer."""

    def __init__(self, schema: Schema, job: Job) -> None:
        self.labels = job.data.labels
        self._schema, self._job = schema, job
        self._own = OwnModule(schema, job)
        self._optimizer = self._choose_optimizer()
        self._rule = rule_of(self._optimizer.choice)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Nothing to train, and large embeddings of Keras' own."""
        trained = self._own.variables.trained or any(embedding.layer.trainable for embedding in self._own.embeddings)
        nothing = () if trained else ("the model has no trainable weights: training leaves it as it is",)
        return nothing + tuple(
            f"`keras.layers.Embedding` `{layer.name}` of {layer.input_dim:,} x {layer.output_dim} goes to every worker"
            f" whole in each step, {layer.input_dim * layer.output_dim * 4 >> 20} MiB; with `afo.layers.Embedding` only"
            " the rows of the batch do"
            for layer in self._own.embeddings_of_keras
            if layer.input_dim * layer.output_dim * 4 > LARGE_BYTES
        )

    def parameters(self, servers: int, splits: int) -> Parameters:
        """A table for each embedding; the state is whatever the model itself changes."""
        return self._parameters(servers, splits, self._hash_tables())

    def _parameters(self, servers: int, splits: int, hash_tables: list[Table]) -> Parameters:
        own, rule, weights = self._own, self._rule, self._own.variables.weights
        tables = [
            table(embedding.name, embedding.layer.input_dim, embedding.layer.output_dim, rule, servers)
            for embedding in own.embeddings
            if not embedding.hashed
        ]
        dense = dense_vector(sum(weight.size for weight in weights), rule, servers)
        keeps = self._job.checkpoint.keeps_survivors
        return parameters_of(
            tuple(tables), dense, weights, self._state(), splits, with_copies=keeps, embeddings=hash_tables
        )

    def sections(self, parameters: Parameters) -> tuple[Section, ...]:
        """Every table, weight and state is kept whole or not at all."""
        tables = [whole_table(parameter.name, parameter.rows, parameter.width) for parameter in parameters.tables]
        tables += [
            whole_hash_table(embedding.name, embedding.layer.output_dim)
            for embedding in self._own.embeddings
            if embedding.hashed
        ]
        state = [whole_state(variable.tensor, variable.shape) for variable in parameters.state]
        return (*tables, *(whole_weight(weight) for weight in parameters.weights), *state)

    def initialize(self, parameters: Parameters) -> None:
        """As Keras would: every layer by its initializers."""
        seed = self._job.data.shuffle.seed
        draws = {
            embedding.name: draw_of(embedding.layer, parameters.servers, seed)
            for embedding in self._own.embeddings
            if not embedding.hashed
        }
        flat = [tf.reshape(variable, [-1]) for variable in self._own.variables.trained]
        vector = tf.concat(flat, axis=0).numpy() if flat else tf.zeros([0]).numpy()
        state = zip(parameters.state, self._own.variables.state, strict=True)
        initialize.create(parameters, draws, vector, {variable.name: value.numpy() for variable, value in state})

    def encode(self, parsed: Parsed, servers: int) -> Inputs:
        """What the model reads; it finds its ids itself."""
        return Inputs(self._own.read(parsed.features), parsed.labels, parsed.weight)

    def rate(self, step: Any, first_step: Any, epochs: Any) -> Any:
        """The job's schedule, times the one that the model was compiled with or that its callbacks make."""
        rate = rate_at(self._job.optimizer.schedule, step, first_step)
        return rate if self._optimizer.has_fixed_rate else rate * self._optimizer.rate(step, epochs)

    def ask(self, inputs: Inputs, exchange: Exchange) -> HashedLookup:
        """All hash tables at once."""
        group, servers = exchange.parameters.embeddings, exchange.parameters.servers
        calls = [] if group is None else self._own.foreseen(inputs.features)
        names = {id(embedding.layer): embedding.name for embedding in self._own.embeddings}
        clips = self._optimizer.clipping.clips
        ways = ways_of(self._own.embeddings, calls, self._job, servers, with_rows=clips) if calls else {}
        tables = HashedLookup(group, names, calls, ways)
        for asked in tables.exchanges:
            exchange.ask(asked)
        return tables

    def compute(self, inputs: Inputs, pulled: Pulled, exchange: Exchange) -> Computed:
        """The model's own loss and its gradients, clipped as its optimizer says. Tables that are no hash tables are
        asked for their rows as the model calls their layers."""
        own, variables = self._own, self._own.variables
        variables.assign(pulled.vector, pulled.state, pulled.step)
        tables: HashedLookup = pulled.asked
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([variables.trained, tables.values])
            tables.open()
            lookup = ServerLookup(own.embeddings, exchange, tape, tables, pulled.step)
            with answered_by(lookup):
                outputs = own.outputs(inputs.features, training=True)
                loss = own.loss(inputs.features, inputs.labels, inputs.weight, outputs)
        sources = [variables.trained, lookup.rows, tables.values]
        weights, rows, found = tape.gradient(loss, sources, self._part(inputs, loss))
        computed = Computed(
            loss=loss,
            rows=lookup.sum_gradients(rows),
            vector=_join_gradients(variables.trained, weights),
            added=tuple(after - before for after, before in zip(variables.state, pulled.state, strict=True)),
            embeddings=tables.gradients(found),
            moved=variables.measure_moves(pulled.vector),
            moved_rows=lookup.measure_moves(),
        )
        return clip_gradients(computed, variables.weights, self._optimizer.clipping)

    def numbers(self, inputs: Inputs) -> dict[str, Any]:
        """The dense features that the model reads, labels and weight."""
        dense = {name: inputs.features[name] for name in self._own.inputs if self._is_dense(name)}
        labels = {name: inputs.labels[:, at] for at, name in enumerate(self.labels)}
        return {**dense, **labels, self._job.data.weight or "weight": inputs.weight}

    def try_answers(self, inputs: Inputs, parameters: Parameters) -> None:
        """As an evaluation does."""
        answers = tf.function(lambda: self._answers(inputs, parameters), autograph=False)().numpy()
        low, high = answers.min(), answers.max()
        if low < 0 or high > 1:
            raise ModelError(
                f"{self._own.entry}: the model answers the first records with {low:.3g} to {high:.3g}, and a"
                " probability lies between 0 and 1; end it with a sigmoid, or, where these are log odds, set"
                " `model.from_logits: true` or compile it with a loss that has from_logits=True"
            )
        self._own.metrics(inputs.labels.numpy(), answers)

    def _answers(self, inputs: Inputs, parameters: Parameters) -> Any:
        own, exchange = self._own, Exchange(parameters)
        with tf.device(exchange.devices[0]):
            _, state, _ = exchange.states[0].read_records()
        tables = self.ask(inputs, exchange)
        exchange.pull()
        own.variables.assign(exchange.vector, state, 0)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tables.open()
            with answered_by(ServerLookup(own.embeddings, exchange, tape, tables, 0)):
                return own.probabilities(inputs.features)

    def local(self, reader: CheckpointReader, form: TableForm = TRAINED) -> "LocalEntryModel":
        """Out of a checkpoint. All that are made share the model's variables: the last one made is right."""
        # Without its hash tables, which are read as they lie: the native operations need not be there.
        absent = {embedding.name: self._filter(embedding.layer).default_value for embedding in self._own.embeddings}
        return LocalEntryModel(self._own, self._parameters(1, 0, []), reader, absent, form)

    def _part(self, inputs: Inputs, loss: Any) -> Any:
        """What gradients are multiplied by. Those of a sum over the samples count each sample alike without it."""
        if self._own.sums_losses:
            return tf.ones_like(loss)
        return tf.cast(share_of_batch(inputs.weight, self._job.data.batch_size), loss.dtype)

    def _hash_tables(self) -> list[Table]:
        hashed = [embedding for embedding in self._own.embeddings if embedding.hashed]
        if not hashed:
            return []
        library.load_for_job()
        optimizer = self._job.optimizer
        rule, clipping = optimizer.of_rows(self._optimizer.choice), optimizer.row_clipping
        seed = self._job.data.shuffle.seed
        evict = self._job.model.embedding.evict
        tables = []
        for embedding in hashed:
            layer = embedding.layer
            first = initializer_of(layer.embeddings_initializer, layer.output_dim, seed)
            evicted = evict if layer.evict is None else layer.evict
            # What is not trained has no gradients, and needs no slots.
            own = rule if layer.trainable else Sgd()
            admitted = self._filter(layer)
            tables.append(
                Table(
                    embedding.name,
                    layer.output_dim,
                    own,
                    first,
                    filter=admitted,
                    eviction=evicted,
                    clipping=clipping,
                    value_dtype=layer.value_dtype or self._job.model.embedding.value_dtype,
                )
            )
        return tables

    def _filter(self, layer: Any) -> Filter:
        found: Filter | None = layer.filter
        return self._job.model.embedding.filter if found is None else found

    def _choose_optimizer(self) -> Compiled:
        options, compiled = self._job.optimizer, getattr(self._own.module, "optimizer", None)
        callbacks = self._own.callbacks
        if options.deep is None and compiled is not None:
            by_epoch = partial(callbacks.rates, epochs=self._job.data.epochs) if callbacks.schedule_rates else None
            chosen = compiled_of(compiled, by_epoch)
        elif callbacks.schedule_rates:
            raise Unsupported(
                "callback LearningRateScheduler is of the optimizer that a model is compiled with, and this one has"
                " none, or `optimizer.deep` of the job file goes before it; leave one of them out"
            )
        else:
            chosen = Compiled(options.deep_or_default)
        if not chosen.has_fixed_rate and options.embedding is not None and options.embedding.chosen is not None:
            raise Unsupported(
                "the model is compiled with a learning-rate schedule, whose values are no factors of the rate in"
                " `optimizer.embedding`; write a number and `optimizer.schedule`"
            )
        if self._own.are_bounded and chosen.choice.ftrl is not UNSET:
            raise Unsupported(
                "the model has weights with a constraint and is trained by FTRL, which makes weights anew from the sum"
                " of their gradients; name another optimizer in `optimizer.deep`"
            )
        return chosen

    def _state(self) -> tuple[Any, ...]:
        return tuple(
            state_variable(f"state.{name.replace('/', '.')}", tuple(variable.shape.as_list()), variable.dtype.name)
            for name, variable in zip(self._own.variables.state_names, self._own.variables.state, strict=True)
        )

    def _is_dense(self, name: str) -> bool:
        return bool(DTYPE[self._schema[name].kind] == tf.float32)


class LocalEntryModel(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """A user's model with its tables in this process."""

    def __init__(
        self, own: OwnModule, parameters: Parameters, reader: CheckpointReader, absent: Mapping[str, float],
        form: TableForm,
    ) -> None:  # fmt: skip
        """`absent`: the weights of a key without a row by table.

        Raises DataError if the checkpoint is of another model.
        """
        super().__init__(name="own_model")
        self._own, self._parameters = own, parameters
        self._assign(reader)
        # What the traced model refers to is saved only if it hangs here.
        self.resources = resources(own.module)
        dense = {parameter.name: form.dense(own.rows(reader, parameter)) for parameter in parameters.tables}
        # TensorFlow tracks a dictionary as it is when it is assigned.
        self.tables = dense | {
            name: form.make_hash_table(rows, absent[name]) for name, rows in self._read_hash_tables(reader).items()
        }

    def load(self, reader: CheckpointReader) -> None:
        """Take the values of another checkpoint. Raises DataError if it is of another model."""
        self._assign(reader)
        for parameter in self._parameters.tables:
            self.tables[parameter.name].load(self._own.rows(reader, parameter))
        for name, rows in self._read_hash_tables(reader).items():
            self.tables[name].load(rows)

    def _read_hash_tables(self, reader: CheckpointReader) -> Mapping[str, Rows | MergedRows]:
        dims = {embedding.name: embedding.layer.output_dim for embedding in self._own.embeddings if embedding.hashed}
        return reader.hash_tables(dims) if dims else {}

    def _assign(self, reader: CheckpointReader) -> None:
        """All but the tables."""
        dense, state = self._parameters.dense, self._parameters.state
        vector = reader.whole(dense.name)
        if vector.shape != (dense.rows,):
            raise DataError(
                f"{reader.url} holds {vector.size} dense weights where the model has {dense.rows}: layers"
                " have changed; start without this checkpoint"
            )
        values = [reader.whole(variable.tensor, variable.dtype) for variable in state]
        self._own.variables.assign(tf.constant(vector), values, reader.manifest.step)

    def metrics(self, labels: Any, probabilities: Any) -> dict[str, float]:
        """Those that the model was compiled with."""
        return self._own.metrics(labels, probabilities)

    def probabilities(self, features: dict[str, Any]) -> Any:
        """float32 [B, labels]."""
        with answered_by(LocalLookup(self._own.embeddings, self.tables)):
            return self._own.probabilities(features)

    def for_one_user(self, user_features: frozenset[str]) -> UserItemOwn:
        """With what reads these features alone computed once, as far as the model says what that is."""
        return UserItemOwn(self._own, user_features, LocalLookup(self._own.embeddings, self.tables))


def _join_gradients(variables: list[Any], gradients: list[Any]) -> Any:
    """The gradient of the dense vector; none where the loss does not depend on a weight."""
    parts = [
        tf.zeros([variable.shape.num_elements()]) if gradient is None else tf.reshape(gradient, [-1])
        for variable, gradient in zip(variables, gradients, strict=True)
    ]
    return tf.concat(parts, axis=0) if parts else tf.zeros([0])
