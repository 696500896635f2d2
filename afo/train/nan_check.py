"""Check for NaN and infinity before the parameter servers, which names what brought them."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from afo.state.parameters import Parameters
from afo.state.position import Position
from afo.state.step_exchange import Exchange, RowGradient
from afo.trainable.model_protocol import Computed, Model, Pulled

#: What the error of a step says whose check has failed.
MARK = "afo: loss or gradients are not finite"


def tensors_of(computed: Computed) -> list[Any]:
    """All that was computed."""
    values = [computed.loss, computed.vector, *computed.added, *(gradient.values for gradient in computed.rows)]
    values += [part for gradients in computed.embeddings for part in gradients.values]
    values += [] if computed.moved is None else [computed.moved]
    return values + [move.values for move in computed.moved_rows]


def require_finite(computed: Computed, waits: Sequence[Any] = ()) -> Computed:
    """The same values, which exist only if loss, gradients and changes of the state are finite, and after `waits`."""
    values = [value for value in tensors_of(computed) if value.dtype.is_floating]
    finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(value)) for value in values]))
    with tf.control_dependencies([tf.debugging.Assert(finite, [MARK]), *waits]):
        return Computed(
            loss=tf.identity(computed.loss),
            rows=_identities(computed.rows),
            vector=tf.identity(computed.vector),
            added=tuple(tf.identity(value) for value in computed.added),
            embeddings=tuple(
                gradients._replace(values=tuple(tf.identity(part) for part in gradients.values))
                for gradients in computed.embeddings
            ),
            moved=None if computed.moved is None else tf.identity(computed.moved),
            moved_rows=_identities(computed.moved_rows),
        )


def _identities(rows: tuple[RowGradient, ...]) -> tuple[RowGradient, ...]:
    return tuple(each._replace(values=tf.identity(each.values)) for each in rows)


def culprits(model: Model, parameters: Parameters, batch: Any) -> tuple[str, ...]:
    """Computes a batch (`Prepared`) once more without applying it; names what was not finite first.

    That is: inputs, else parameters, else loss, else gradients; none if all is finite now, after others' updates.
    """

    def look(batch: Any) -> list[dict[str, Any]]:
        exchange = Exchange(parameters)
        position = Position(exchange, batch.origin)
        asked_for = model.ask(batch.inputs, exchange)
        exchange.pull(position)
        pulled = Pulled(asked_for, exchange.vector, position.state, position.step)
        computed = model.compute(batch.inputs, pulled, exchange)
        inputs = {f"input `{name}`": value for name, value in model.numbers(batch.inputs).items()}
        tables = {f"table `{table.name}`": values for table, values in exchange.gathered}
        asked: dict[str, Any] = {}
        for question in computed.embeddings:
            tables |= {
                f"table `{name}`": rows for name, rows in question.exchange.by_table(question.exchange.values).items()
            }
            asked |= {
                f"gradient of table `{name}`": rows
                for name, rows in question.exchange.by_table(question.values).items()
            }
        parameters_now = tables | _by_weight("weights", parameters, pulled.vector)
        gradients = {
            f"gradient of table `{gradient.table.name}`": gradient.values for gradient in computed.rows
        } | asked
        gradients |= _by_weight("gradient of", parameters, computed.vector)
        groups = [inputs, parameters_now, {"loss": computed.loss[tf.newaxis]}, gradients]
        return [{name: _count_not_finite(value) for name, value in group.items()} for group in groups]

    signature = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), batch)
    for group in tf.function(look, [signature], autograph=False)(batch):
        counts = {name: tuple(int(number) for number in found) for name, found in group.items()}
        if bad := [_text(name, *found) for name, found in counts.items() if found[0]]:
            return tuple(bad)
    return ()


def _by_weight(prefix: str, parameters: Parameters, vector: Any) -> dict[str, Any]:
    parts = tf.split(vector, [weight.size for weight in parameters.weights]) if parameters.weights else []
    return {f"{prefix} `{weight.name}`": part for weight, part in zip(parameters.weights, parts, strict=True)}


def _count_not_finite(values: Any) -> tuple[Any, Any]:
    """How many of the first axis hold something that is not finite, and how many there are."""
    wrong = tf.reduce_any(~tf.math.is_finite(values), axis=list(range(1, len(values.shape))))
    return tf.reduce_sum(tf.cast(wrong, tf.int32)), tf.size(wrong)


def _text(name: str, wrong: int, of: int) -> str:
    if name == "loss":
        return "the loss"
    return f"{name} ({wrong} of {of} {'samples' if name.startswith('input') else 'rows or values'})"
