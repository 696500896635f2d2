"""Resources of a user's model in TensorFlow's memory: what a SavedModel of it must bring along.

The Keras model itself is not saved: TensorFlow would trace it once more by an input signature that Keras guesses.
"""

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

_KEPT = (tf.Variable, tf.saved_model.experimental.TrackableResource, tf.saved_model.Asset)


def resources(root: Any) -> list[Any]:
    """Variables and lookup tables in the attributes of `root`, its layers, modules, lists and dicts, each once."""
    waiting, seen, found = [root], {id(root)}, []
    while waiting:
        item = waiting.pop()
        if isinstance(item, _KEPT):
            found.append(item)
            continue
        for inner in _children(item):
            if id(inner) not in seen:
                seen.add(id(inner))
                waiting.append(inner)
    return found


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, keras.Variable):
        yield value.value
    elif isinstance(value, keras.layers.Layer | tf.Module):
        yield from vars(value).values()
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
