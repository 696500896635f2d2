"""A model of one's own for one user and n items.

Of a functional Keras model each layer that reads nothing but the user's features, or what such layers made of them,
runs once; its outputs are repeated for the items where another layer reads them. Of every other model the user's
features are repeated before it is called.
"""

import inspect
from typing import Any

import keras
import tensorflow as tf
from keras.src.models.functional import Functional

from afo.layers.layer_lookup import Lookup, answered_by
from afo.models.entry import user_code
from afo.trainable.own_module import OwnModule


class UserItemOwn:
    """Its variables and tables are those of the whole model."""

    def __init__(self, own: OwnModule, user_features: frozenset[str], lookup: Lookup) -> None:
        self._own, self._user_features, self._lookup = own, user_features, lookup

    def probabilities(self, user: dict[str, Any], items: dict[str, Any]) -> Any:
        """The user's features, [1, values] each, and the items', [n, values] each → float32 [n, labels]."""
        own, size = self._own, tf.shape(next(iter(items.values())))[0]
        with answered_by(self._lookup):
            if type(own.module) is not Functional:
                return own.probabilities(items | {name: _repeat(value, size) for name, value in user.items()})
            with user_code(own.entry):
                outputs = _run_layers(own.module, own.given(user | items), self._user_features, size)
            return own.probabilities_of(outputs)


class _Tensors:
    """What was computed so far of a functional model's tensors, by the identity of each."""

    def __init__(self, size: Any) -> None:
        self._size = size
        #: Of the user, [1, …] each; and of each item, [n, …].
        self.once: dict[int, Any] = {}
        self._of_items: dict[int, Any] = {}

    def put(self, tensors: Any, values: Any, *, once: bool) -> None:
        """`once`: they are the user's."""
        for tensor, value in zip(tensors, values, strict=True):
            (self.once if once else self._of_items)[id(tensor)] = value

    def are_users(self, call: Any) -> bool:
        """Whether a layer's call is made once: it reads the user's alone, and has a row for each row."""
        rowwise = all(tensor.shape and tensor.shape[0] is None for tensor in call.outputs)
        return rowwise and all(id(tensor) in self.once for tensor in call.input_tensors)

    def of_items(self, tensors: Any) -> dict[int, Any]:
        """All that items have, these among them."""
        for tensor in tensors:
            if id(tensor) not in self._of_items:
                self._of_items[id(tensor)] = _repeat(self.once[id(tensor)], self._size)
        return self._of_items


def _run_layers(model: Any, given: Any, user_features: frozenset[str], size: Any) -> Any:
    """The outputs of a functional model without training, its layers' calls in its own order."""
    tensors, names = _Tensors(size), _input_names(model)
    for tensor, value in zip(model.inputs, model._standardize_inputs(given), strict=True):
        tensors.put([tensor], [value], once=names[id(tensor)] in user_features)
    calls = [call for depth in sorted(model._nodes_by_depth, reverse=True) for call in model._nodes_by_depth[depth]]
    for call in calls:
        if call.is_input:
            continue
        once, layer = tensors.are_users(call), call.operation
        args, kwargs = call.arguments.fill_in(tensors.once if once else tensors.of_items(call.input_tensors))
        if "training" in inspect.signature(layer.call).parameters:
            kwargs["training"] = False
        tensors.put(call.outputs, keras.tree.flatten(layer(*args, **kwargs)), once=once)
    found = tensors.of_items(model.outputs)
    return keras.tree.map_structure(lambda tensor: found[id(tensor)], model.output)


def _input_names(model: Any) -> dict[int, str]:
    """What `OwnModule.inputs` calls each input, by the tensor's identity."""
    if isinstance(model.input, dict):
        return {id(tensor): name for name, tensor in model.input.items()}
    return {id(tensor): tensor.name for tensor in model.inputs}


def _repeat(value: Any, size: Any) -> Any:
    """[1, …] → [n, …], with the mask that Keras keeps at it."""
    repeated, mask = tf.repeat(value, size, axis=0), getattr(value, "_keras_mask", None)
    if mask is not None:
        repeated._keras_mask = tf.repeat(mask, size, axis=0)
    return repeated
