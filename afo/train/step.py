"""The training step: one function over the worker and all parameter servers.

Preparing a batch (parsing, hashing, routing) is a function of its own, which runs ahead on the worker. The step then
pulls the rows and the dense vector, computes gradients, has every server apply its part, and after all of that (the
control dependency is what makes a position true) writes how far the batch's files have been applied.

The loss of a table's row is the sum over its samples, as if they came one by one, so that a rare id learns as quickly
in a large batch as in a small one; dense weights follow the mean over the batch.
"""

from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from afo.models import wide_deep
from afo.models.encode import Encoder
from afo.models.hashing import xor_by_group
from afo.models.layout import Layout
from afo.models.records import RecordParser
from afo.train.exchange import Exchange, Pulled
from afo.train.parameters import Parameters
from afo.train.position import Position
from afo.train.routing import Route, route


class Prepared(NamedTuple):
    """A batch of B samples of R files, ready for the step."""

    ids: Route
    crosses: Route
    dense: Any
    label: Any
    weight: Any
    #: int64 [R]: the files, their epoch, how many samples of each, xor of their hashed ids.
    files: Any
    epochs: Any
    counts: Any
    xors: Any


class StepResult(NamedTuple):
    """What a step tells the worker."""

    #: Steps of all workers, this one included.
    step: Any
    loss: Any
    #: int64 [R] and [R, 3]: the batch's files and their new positions.
    files: Any
    positions: Any


def prepare_function(parser: RecordParser, encoder: Encoder, servers: int) -> Any:
    """A function (records string [B], files int64 [B], epochs int64 [B]) → `Prepared`, all on the worker."""

    def prepare(records: Any, files: Any, epochs: Any) -> Prepared:
        parsed = parser(records)
        encoded = encoder(parsed.features)
        unique, group, counts = tf.unique_with_counts(files, out_idx=tf.int64)
        size = tf.size(unique)
        return Prepared(
            ids=route(tf.reshape(encoded.ids, [-1]), servers),
            crosses=route(tf.reshape(encoded.crosses, [-1]), servers),
            dense=encoded.dense,
            label=parsed.labels[:, 0],
            weight=parsed.weight,
            files=unique,
            epochs=tf.math.unsorted_segment_max(epochs, group, size),
            counts=counts,
            xors=xor_by_group(parsed.identity, group, size),
        )

    signature = [tf.TensorSpec([None], kind) for kind in (tf.string, tf.int64, tf.int64)]
    return tf.function(prepare, signature, autograph=False)


def step_function(layout: Layout, parameters: Parameters, prepare: Any) -> Any:
    """The training step: a function of `Prepared`, as `prepare` yields it, → `StepResult`."""
    outputs = prepare.get_concrete_function().structured_outputs
    signature = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), outputs)

    return tf.function(partial(_step, layout, parameters), [signature], autograph=False)


def _step(layout: Layout, parameters: Parameters, batch: Prepared) -> StepResult:
    exchange = Exchange(parameters, batch.ids, batch.crosses)
    position = Position(parameters, batch)
    pulled = exchange.pull()
    dense = wide_deep.standardised(batch.dense, position.statistics)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        # The gradients are taken of each id's own copy and summed afterwards: quicker than through tf.gather.
        looked_up = _looked_up(layout, batch, pulled)
        present = [value for value in looked_up if value is not None]
        tape.watch(present)
        log_odds = _log_odds(layout, looked_up, dense)
        loss = tf.reduce_sum(batch.weight * wide_deep.sample_losses(batch.label, log_odds))
    total_weight = tf.maximum(tf.reduce_sum(batch.weight), 1e-12)
    found = iter(tape.gradient(loss, present))
    gradients = Pulled(*(None if value is None else next(found) for value in looked_up))
    applied = exchange.push(_summed(batch, pulled, gradients, total_weight))
    with tf.control_dependencies(applied):
        step, positions = position.advance()
    return StepResult(step, loss / total_weight, tf.identity(batch.files), positions)


def _looked_up(layout: Layout, batch: Prepared, pulled: Pulled) -> Pulled:
    """The parameters of every id of the batch: [B, ids, dim], [B, ids], [B, crosses], and the vector as it is."""
    size = tf.shape(batch.label)[0]

    def spread(values: Any, places: Any, shape: list[Any]) -> Any:
        return None if values is None else tf.reshape(tf.gather(values, places), [size, *shape])

    return Pulled(
        embeddings=spread(pulled.embeddings, batch.ids.places, [layout.ids_per_sample, layout.dim]),
        linear=spread(pulled.linear, batch.ids.places, [layout.ids_per_sample]),
        crosses=spread(pulled.crosses, batch.crosses.places, [len(layout.crosses)]),
        vector=tf.identity(pulled.vector),
    )


def _log_odds(layout: Layout, parameters: Pulled, dense: Any) -> Any:
    wide = None if parameters.linear is None else tf.concat([parameters.linear, parameters.crosses], axis=1)
    return wide_deep.logits(layout, parameters.embeddings, wide, dense, parameters.vector)


def _summed(batch: Prepared, pulled: Pulled, gradients: Pulled, total_weight: Any) -> Pulled:
    """Gradients of each different id, summed over the samples; of the dense weights the mean over the samples."""

    def summed(gradient: Any, places: Any, like: Any) -> Any:
        if like is None:
            return None
        flat = tf.reshape(gradient, tf.concat([[-1], tf.shape(like)[1:]], axis=0))
        return tf.math.unsorted_segment_sum(flat, places, tf.shape(like)[0])

    return Pulled(
        embeddings=summed(gradients.embeddings, batch.ids.places, pulled.embeddings),
        linear=summed(gradients.linear, batch.ids.places, pulled.linear),
        crosses=summed(gradients.crosses, batch.crosses.places, pulled.crosses),
        vector=gradients.vector / total_weight,
    )
