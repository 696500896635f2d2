"""The ids that a layer of a user's model asks for."""

from typing import Any

import tensorflow as tf

#: Operations with a state that does not change: a lookup in a vocabulary.
_STEADY = frozenset({"LookupTableFindV2", "LookupTableSizeV2"})


def all_within(layer: Any, ids: Any) -> Any:
    """Fails if an id is no row: a server would complain of a row by its number there."""
    fits = tf.reduce_all((ids >= 0) & (ids < layer.input_dim))
    lowest, highest = tf.reduce_min(ids), tf.reduce_max(ids)
    text = f"embedding `{layer.name}` has the rows 0 to {layer.input_dim - 1} and was asked for ids between"
    return tf.debugging.Assert(fits, [text, lowest, "and", highest], name="ids_are_rows")


def shaped(rows: Any, ids: Any, layer: Any) -> Any:
    result = tf.reshape(rows, tf.concat([tf.shape(ids), [layer.output_dim]], axis=0))
    return tf.ensure_shape(result, [*ids.shape, layer.output_dim])


def follow_from_inputs(ids: Any) -> bool:
    """Whether these ids, a tensor of a traced function, are the same whenever they are computed of the same inputs.

    Not where a variable, a random number or a function with a state has a part in them.
    """
    waiting, seen = [ids.op], {ids.op.name}
    while waiting:
        operation = waiting.pop()
        if operation.type == "Placeholder":
            continue
        if operation.op_def is None or (operation.op_def.is_stateful and operation.type not in _STEADY):
            return False
        for each in operation.inputs:
            if each.op.name not in seen:
                seen.add(each.op.name)
                waiting.append(each.op)
    return True
