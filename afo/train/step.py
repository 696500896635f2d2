"""The training step: one function over the worker and all parameter servers, whatever the model.

Preparing a batch (parsing, hashing, routing) is a function of its own, which runs ahead on the worker. The step then
has the model pull what it needs and compute gradients, has every server apply its part, and after all of that (the
control dependency is what makes a position true) writes how far the batch's files have been applied.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.pipeline.batch_fragments import Origins
from afo.models.parser import RecordParser
from afo.params.parameters import Parameters
from afo.params.position import Origin, Position, origin_of
from afo.params.step_exchange import Exchange
from afo.params.variables import on_client
from afo.train import nan_check
from afo.trainable.model_protocol import Model


class Prepared(NamedTuple):
    """A batch, ready for the step: what the model made of it, and where it comes from."""

    inputs: Any
    origin: Origin


class StepResult(NamedTuple):
    """What a step tells the worker."""

    #: int64 [2]: steps of all workers that were applied when this one began, and with it.
    steps: Any
    loss: Any
    #: int64 [R] and [R, 3]: the batch's files and their new positions.
    files: Any
    positions: Any


def prepare_function(model: Model, parser: RecordParser, servers: int) -> Any:
    """A function (B records as the parser takes them, their `Origins`) → `Prepared`."""

    def prepare(records: Any, origins: Origins) -> Prepared:
        parsed = parser(records)
        return Prepared(model.encode(parsed, servers), origin_of(parsed.identity, origins))

    per_sample = tf.TensorSpec([None], tf.int64)
    return tf.function(
        prepare, [parser.signature, Origins(per_sample, per_sample, per_sample, per_sample)], autograph=False
    )


def prepared_signature(prepare: Any) -> Any:
    """The nest of `tf.TensorSpec` that a prepare function yields."""
    outputs = prepare.get_concrete_function().structured_outputs
    return tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), outputs)


def step_function(model: Model, parameters: Parameters, prepare: Any) -> Any:
    """The training step: a function of `Prepared`, as `prepare` yields it, and the step that the job began with (int64
    scalar) → `StepResult`."""

    def step(batch: Prepared, first_step: Any) -> StepResult:
        exchange = Exchange(parameters)
        position = Position(parameters, batch.origin)
        computed = nan_check.require_finite(model.compute(batch.inputs, exchange, position.state, position.step))
        rate = model.rate(position.step, first_step, batch.origin.epochs)
        # Before the gradients: a rule may look at the weights.
        applied = [] if computed.moved is None else exchange.move_vector(computed.moved)
        applied += [operation for change in computed.moved_rows for operation in exchange.move_rows(change)]
        applied += [operation for gradient in computed.rows for operation in exchange.apply_rows(gradient, rate)]
        for asked, values in computed.embeddings:
            applied += asked.apply(values, step=position.step, schedule=rate)
        applied += exchange.apply_vector(computed.vector, rate)
        with tf.control_dependencies(applied):
            steps, positions = position.advance(computed.added)
        result = StepResult(steps, computed.loss, batch.origin.files, positions)
        return tf.nest.map_structure(on_client, result)  # type: ignore[no-any-return]  # TensorFlow is untyped

    return tf.function(step, [prepared_signature(prepare), tf.TensorSpec([], tf.int64)], autograph=False)
