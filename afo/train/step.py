"""The training step: one function over the worker and all parameter servers, whatever the model.

Preparing a batch (parsing, hashing, routing) is a function of its own, which runs ahead on the worker. The step then
has the model pull what it needs and compute gradients, has every server apply its part, and after all of that (the
control dependency is what makes a position true) writes how far the batch's files have been applied.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.pipeline.batch_fragments import Origins
from afo.embedding.exchange import table_update
from afo.embedding.pull_push import Update
from afo.models.parser import RecordParser
from afo.state.parameters import Parameters
from afo.state.position import Origin, Position, origin_of
from afo.state.step_exchange import Exchange, RowsMove, RowsUpdate, VectorMove, VectorUpdate
from afo.state.variables import client_device, on_client
from afo.train import nan_check
from afo.trainable.model_protocol import Computed, Model, Pulled


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


class Turns(NamedTuple):
    """Turns of a step that others are in flight beside, resources of queues: whoever takes a token goes on."""

    #: To compute, and to push; each is given on to the next step by a token in its queue.
    compute: Any
    next_compute: Any
    push: Any
    next_push: Any


def step_function(model: Model, parameters: Parameters, prepare: Any) -> Any:
    """The training step: a function of `Prepared`, as `prepare` yields it, and the step that the job began with (int64
    scalar) → `StepResult`."""

    def step(batch: Prepared, first_step: Any) -> StepResult:
        exchange = Exchange(parameters)
        position = Position(exchange, batch.origin)
        asked = model.ask(batch.inputs, exchange)
        exchange.pull(position)
        pulled = Pulled(asked, exchange.vector, position.state, position.step)
        computed = nan_check.require_finite(model.compute(batch.inputs, pulled, exchange))
        result, _ = _push(model, exchange, position, computed, batch.origin, first_step)
        return result

    return tf.function(step, [prepared_signature(prepare), tf.TensorSpec([], tf.int64)], autograph=False)


def overlapping_step_function(model: Model, parameters: Parameters, prepare: Any) -> Any:
    """A step of which several are in flight: a function of what `step_function`'s takes, of the positions [R, 3] that
    the batch's files have once it is applied, and of `Turns` → `StepResult`.

    It pulls at once, computes when it is its turn, and pushes when those before have.
    """

    def step(batch: Prepared, first_step: Any, after: Any, turns: Turns) -> StepResult:
        exchange = Exchange(parameters)
        position = Position(exchange, batch.origin, after)
        asked = model.ask(batch.inputs, exchange)
        exchange.pull(position)
        pulled = (exchange.vector, position.state, position.step)
        with tf.control_dependencies([_take(turns.compute)]):
            pulled = tf.nest.map_structure(tf.identity, pulled)
        computed = model.compute(batch.inputs, Pulled(asked, *pulled), exchange)
        with tf.control_dependencies(nan_check.tensors_of(computed)):
            _give(turns.next_compute)
        computed = nan_check.require_finite(computed, [_take(turns.push)])
        result, written = _push(model, exchange, position, computed, batch.origin, first_step)
        with tf.control_dependencies([*written, *result]):
            _give(turns.next_push)
        return result

    signature = [
        prepared_signature(prepare), tf.TensorSpec([], tf.int64), tf.TensorSpec([None, 3], tf.int64),
        Turns(*(tf.TensorSpec([], tf.resource) for _ in Turns._fields)),
    ]  # fmt: skip
    return tf.function(step, signature, autograph=False)


def _push(
    model: Model, exchange: Exchange, position: Position, computed: Computed, origin: Origin, first_step: Any
) -> tuple[StepResult, list[Any]]:
    """The servers' part of a step; also returns what comes after all else of it."""
    rate = model.rate(position.step, first_step, origin.epochs)
    # Before the gradients: a rule may look at the weights.
    updates: list[Update] = [] if computed.moved is None else [VectorMove(exchange, computed.moved)]
    updates += [RowsMove(exchange, change) for change in computed.moved_rows]
    updates += [RowsUpdate(exchange, gradient, rate) for gradient in computed.rows]
    updates += [table_update(asked, values, step=position.step, schedule=rate) for asked, values in computed.embeddings]
    updates.append(VectorUpdate(exchange, computed.vector, rate))
    position.add(computed.added)
    written = exchange.push(updates, [position])
    result = StepResult(position.steps, computed.loss, origin.files, position.new)
    return tf.nest.map_structure(on_client, result), written


def _take(queue: Any) -> Any:
    with tf.device(client_device()):
        return tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.bool])[0]


def _give(queue: Any) -> None:
    with tf.device(client_device()):
        tf.raw_ops.QueueEnqueueV2(handle=queue, components=[tf.constant(True)])
