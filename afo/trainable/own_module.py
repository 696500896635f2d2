"""A user's Keras model or `tf.Module` as the trainer sees it: what it reads, its variables, its answers, its loss."""

import inspect
from typing import Any

import keras
import tensorflow as tf

from afo.checkpoint.restore import CheckpointReader
from afo.data.schema import Schema
from afo.errors import DataError, ModelError
from afo.job import Job
from afo.layers import Embedding
from afo.layers.layer_lookup import answered_by
from afo.models.entry import build_model, user_code
from afo.models.parser import feature_specs
from afo.state.parameters import Parameter
from afo.trainable.hash_eligibility import follow_from_inputs, unfit
from afo.trainable.lookups import Call, Embeddings, Named
from afo.trainable.own_callbacks import OwnCallbacks
from afo.trainable.own_metrics import OwnMetrics, log_odds
from afo.trainable.own_variables import OwnVariables

#: Rows of a table that are constrained at a time.
BLOCK = 1 << 16


class OwnModule:
    """Built once in a process. Raises what `build_model` raises, and ModelError for what cannot be trained."""

    def __init__(self, schema: Schema, job: Job) -> None:
        # First weights, dropout and initializers without a seed follow the job's.
        keras.utils.set_random_seed(job.data.shuffle.seed)
        self._job = job
        self.entry = job.model.entry
        found = Embeddings()
        with answered_by(found):
            #: The user's object.
            self.module = build_model(job.model, schema)
            if not isinstance(self.module, keras.Model | tf.Module):
                raise ModelError(
                    f"{self.entry} returned {_kind(self.module)}; it must return a keras.Model or tf.Module"
                )
            if isinstance(self.module, keras.Model) and type(self.module).train_step is not keras.Model.train_step:
                raise ModelError(f"{self.entry}: a `train_step` of its own is not run here; put it into `compute_loss`")
            self.callbacks = OwnCallbacks(job, self._losses)
            #: Names of the features that it reads.
            self.inputs = _inputs(self.module, schema, self.entry)
            specs = feature_specs(schema)
            graph = self._trace(specs)
        #: Its layers whose tables lie on the servers.
        self.embeddings = self._choose_storage(found.name_layers(), found.calls_in(graph), specs)
        self.variables = OwnVariables(self.module, graph, self.entry)

    @property
    def compiled(self) -> Any:
        """The Keras model if it brings its own loss, else None."""
        module = self.module
        has_loss = isinstance(module, keras.Model) and module.compiled and module.loss is not None
        return module if has_loss else None

    @property
    def embeddings_of_keras(self) -> tuple[Any, ...]:
        """Layers of Keras' own whose table is among the dense weights; of a Keras model."""
        layers = self.module._flatten_layers() if isinstance(self.module, keras.Model) else ()
        return tuple(
            layer for layer in layers if isinstance(layer, keras.layers.Embedding) and not isinstance(layer, Embedding)
        )

    @property
    def are_bounded(self) -> bool:
        """Whether weights or rows have a constraint."""
        return self.variables.are_bounded or any(embedding.layer.is_bounded for embedding in self.embeddings)

    @property
    def gives_logits(self) -> bool:
        """Whether its outputs are log odds: the job says so, or the loss that it was compiled with does."""
        return self._job.model.from_logits or any(getattr(loss, "from_logits", False) for loss in self._losses)

    @property
    def sums_losses(self) -> bool:
        """Whether it was compiled with losses that are sums over a batch, all of them, and not means."""
        return bool(self._losses) and all(getattr(loss, "reduction", None) == "sum" for loss in self._losses)

    @property
    def _losses(self) -> list[Any]:
        """What it was compiled with."""
        return tf.nest.flatten(self.compiled.loss) if self.compiled else []

    def read(self, features: dict[str, Any]) -> dict[str, Any]:
        """The features that it reads."""
        return {name: features[name] for name in self.inputs}

    def given(self, features: dict[str, Any]) -> Any:
        """The features that it reads, as it takes them."""
        given = self.read(features)
        if not getattr(self.module, "inputs", None) or not _by_place(self.module):
            return given
        return next(iter(given.values())) if len(given) == 1 else list(given.values())

    def outputs(self, features: dict[str, Any], *, training: bool) -> Any:
        """What it returns for features [B, values] each, as it returns it."""
        given = self.given(features)
        with user_code(self.entry):
            if _takes_training(self.module):
                return self.module(given, training=training)
            return self.module(given)

    def answers(self, outputs: Any) -> Any:
        """Its outputs as float32 [B, labels], in the order of `data.label`. Raises ModelError for another shape."""
        labels = self._job.data.labels
        if isinstance(outputs, dict):
            if set(outputs) != set(labels):
                self._refuse(f"a dict with {', '.join(sorted(map(str, outputs)))}")
            outputs = [outputs[label] for label in labels]
        parts = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        wide = [tf.cast(part if len(part.shape) != 1 else part[:, tf.newaxis], tf.float32) for part in parts]
        widths = [part.shape[-1] for part in wide]
        whole = len(wide) == 1 and widths == [len(labels)]
        if any(len(part.shape) != 2 for part in wide) or not (whole or widths == [1] * len(labels)):
            self._refuse(" and ".join(str(part.shape.as_list()) for part in parts))
        return tf.concat(wide, axis=1)

    def loss(self, features: dict[str, Any], labels: Any, weight: Any, outputs: Any) -> Any:
        """Mean loss of a batch, a scalar. `labels` [B, labels], `weight` [B].

        A compiled model's own. Otherwise binary cross-entropy: the mean over the samples by weight, summed over the
        labels, and what layers add (`add_loss`, regularizers).
        """
        answers = self.answers(outputs)
        if self.compiled:
            weighted = self._job.data.weighs_samples
            given = {"x": features, "y": self._as_outputs(labels), "y_pred": outputs}
            with user_code(self.entry):
                return self.compiled.compute_loss(**given, sample_weight=weight if weighted else None)
        losses = keras.ops.binary_crossentropy(labels, answers, from_logits=self.gives_logits)
        mean = tf.reduce_sum(losses * weight[:, tf.newaxis]) / tf.maximum(tf.reduce_sum(weight), 1e-12)
        return tf.add_n([mean, *(tf.reduce_sum(term) for term in _added_losses(self.module))])

    def probabilities(self, features: dict[str, Any]) -> Any:
        """float32 [B, labels]."""
        return self.probabilities_of(self.outputs(features, training=False))

    def probabilities_of(self, outputs: Any) -> Any:
        """float32 [B, labels] of what it returned without training."""
        answers = self.answers(outputs)
        return tf.sigmoid(answers) if self.gives_logits else answers

    def rows(self, reader: CheckpointReader, table: Parameter) -> Any:
        """Rows [n, width] of a dense table out of a checkpoint, within the constraint of its layer.

        Raises DataError as `reader` does.
        """
        (layer,) = (embedding.layer for embedding in self.embeddings if embedding.name == table.name)
        rows = reader.table(table.name, table.rows, table.width)
        if layer.is_bounded:
            for first in range(0, len(rows), BLOCK):
                block = rows[first : first + BLOCK]
                with user_code(self.entry):
                    block[...] = layer.constrain(tf.constant(block), reader.manifest.step).numpy()
        return rows

    def metrics(self, labels: Any, probabilities: Any) -> dict[str, float]:
        """What it was compiled with, over numpy arrays [n, labels] of all records; empty where there are none."""
        own = OwnMetrics(self.module, self.entry)
        if not own:
            return {}
        scores = log_odds(probabilities) if self.gives_logits else probabilities
        return own.of(self._as_outputs(labels), self._as_outputs(scores))

    def _as_outputs(self, values: Any) -> Any:
        """Labels or scores [n, labels] in the structure and ranks of the outputs."""
        names = self._job.data.labels
        if isinstance(self._ranks, dict):
            columns: Any = {name: values[:, at : at + 1] for at, name in enumerate(names)}
        elif isinstance(self._ranks, list | tuple):
            parts = [values] if len(self._ranks) == 1 else [values[:, at : at + 1] for at in range(len(names))]
            columns = type(self._ranks)(parts)
        else:
            columns = values
        return tf.nest.map_structure(lambda part, rank: part if rank > 1 else part[:, 0], columns, self._ranks)

    def foreseen(self, features: dict[str, Any]) -> list[Call]:
        """The calls of all layers with hash tables for features [B, values] each, in the function that is traced now.

        Nothing of the model is changed by it: it runs as it does without training.
        """
        calls = Embeddings()
        with answered_by(calls):
            self.outputs(features, training=False)
        hashed = {id(embedding.layer) for embedding in self.embeddings if embedding.hashed}
        within = calls.calls_in(tf.compat.v1.get_default_graph())
        return [call for call in within if id(call.layer) in hashed]

    def _choose_storage(
        self, layers: tuple[Named, ...], training: list[Call], specs: dict[str, Any]
    ) -> tuple[Named, ...]:
        """Which of the layers have a hash table. Raises ModelError for one that must and cannot."""
        wanted = bool(layers) and self._job.model.embedding.storage == "hash_table"
        without = self._calls_without_training(specs) if wanted else []
        named = []
        for embedding in layers:
            reason = unfit(embedding.layer, training, without) if wanted else "`embedding.storage` is `dense`"
            if reason:
                self._require_dense(embedding.layer, reason)
            weights = [call.weights for call in training if call.layer is embedding.layer and call.weights is not None]
            fixed = all(follow_from_inputs(given) for given in weights)
            named.append(embedding._replace(hashed=not reason, foresees_weights=fixed))
        return tuple(named)

    def _require_dense(self, layer: Any, reason: str) -> None:
        """Raises ModelError where a layer says what a dense table cannot do."""
        if layer.input_dim is None:
            raise ModelError(
                f"{self.entry}: embedding `{layer.name}` has no `input_dim`, and cannot be a hash table: {reason}"
            )
        given = {"filter": layer.filter, "evict": layer.evict, "wire": layer.wire == "bfloat16"}
        given |= {"pooling": layer.pooling == "servers", "value_dtype": layer.value_dtype == "bfloat16"}
        for option, value in given.items():
            if value:
                raise ModelError(
                    f"{self.entry}: embedding `{layer.name}` has `{option}`, which is of hash tables, and cannot be"
                    f" one: {reason}"
                )

    def _calls_without_training(self, specs: dict[str, Any]) -> list[Call]:
        found = Embeddings()
        used = {name: specs[name] for name in self.inputs}
        function = tf.function(lambda features: self.outputs(features, training=False), autograph=False)
        with answered_by(found):
            return found.calls_in(function.get_concrete_function(used).graph)

    def _trace(self, specs: dict[str, Any]) -> Any:
        """Call it once without running it: creates all variables, finds all embeddings, checks the outputs.

        Returns the graph. TensorFlow traces a function that creates variables twice, and keeps the last.
        """

        def call(features: dict[str, Any], labels: Any, weight: Any) -> Any:
            outputs = self.outputs(features, training=True)
            self._ranks = tf.nest.map_structure(lambda tensor: len(tensor.shape), outputs)
            return self.loss(features, labels, weight, outputs)

        labels = tf.TensorSpec([None, len(self._job.data.labels)], tf.float32)
        used = {name: specs[name] for name in self.inputs}
        traced = tf.function(call, autograph=False)
        return traced.get_concrete_function(used, labels, tf.TensorSpec([None], tf.float32)).graph

    def _refuse(self, given: str) -> None:
        labels = self._job.data.labels
        count = len(labels)
        allowed = f"[batch, {count}]" + (f", {count} outputs of [batch, 1], or a dict of them" if count > 1 else "")
        raise ModelError(
            f"{self.entry}: the model gives {given} for {count} label{'s' if count > 1 else ''}"
            f" ({', '.join(labels)}); it must give {allowed}"
        )


def _inputs(module: Any, schema: Schema, entry: str) -> tuple[str, ...]:
    """The features that a model of named inputs asks for; every other model gets all."""
    if not getattr(module, "inputs", None):
        return schema.names
    names = [tensor.name for tensor in module.inputs] if _by_place(module) else list(module.input)
    for name in names:
        try:
            schema[name]
        except DataError as error:
            raise ModelError(f"{entry}: the model reads an input `{name}`: {error}") from error
    return tuple(names)


def _added_losses(module: Any) -> list[Any]:
    """What layers add to the loss, those of a `tf.Module` too, which lists none of its own."""
    if hasattr(module, "losses"):
        return list(module.losses)
    layers = list(module._flatten(predicate=lambda part: isinstance(part, keras.layers.Layer)))
    inside = {id(inner): inner for layer in layers for inner in layer._flatten_layers()}.values()
    weights = {id(weight): weight for layer in layers for weight in layer.trainable_weights}.values()
    own = [loss for layer in inside for loss in layer._get_own_losses()]
    return own + [weight.regularizer(weight) for weight in weights if weight.regularizer is not None]


def _by_place(module: Any) -> bool:
    """Whether inputs are given to it in their order, not by name."""
    return isinstance(module, keras.Sequential) or not isinstance(module.input, dict)


def _takes_training(module: Any) -> bool:
    return isinstance(module, keras.Model) or "training" in inspect.signature(module.__call__).parameters


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"
