"""Eligibility of a user's embedding layers for hash tables."""

from collections.abc import Sequence
from typing import Any

from afo.embedding.initializers import initializer_of
from afo.errors import Unsupported
from afo.trainable.lookups import Call

#: Operations with a state that does not change: a lookup in a vocabulary.
_STEADY = frozenset({"LookupTableFindV2", "LookupTableSizeV2"})


def unfit(layer: Any, training: Sequence[Call], without: Sequence[Call]) -> str:
    """Why `layer` cannot have a hash table; empty if it can.

    `training` and `without`: all calls of the model's layers in and without training. They must be foreseen to be asked
    at once, and a row's first values must be a function of its key alone.
    """
    try:
        initializer_of(layer.embeddings_initializer, layer.output_dim, 0)
    except Unsupported as error:
        return str(error)
    if layer.is_bounded:
        return "its `embeddings_constraint` puts rows back within their bounds, which a hash table does not take"
    own = [call.ids for call in training if call.layer is layer]
    if not own:
        return "it is called inside of a loop, a condition or a function of TensorFlow"
    if len(own) != sum(call.layer is layer for call in without):
        return "it is called another number of times in training than without"
    if not all(follow_from_inputs(ids) for ids in own):
        return "its ids depend on more than the features: on a variable, or on random numbers"
    return ""


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
        for tensor in operation.inputs:
            if tensor.op.name not in seen:
                seen.add(tensor.op.name)
                waiting.append(tensor.op)
    return True
