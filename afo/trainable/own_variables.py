"""The variables of a user's model: what the optimizer changes, what the model changes by itself, what bounds them."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from afo.errors import ModelError
from afo.models.entry import user_code
from afo.models.feature_layout import Weight

#: What a step can add to on a parameter server.
_STATE_DTYPES = ("float32", "float64", "int32", "int64")
_ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class Trained(NamedTuple):
    """A variable that the optimizer changes."""

    name: str
    #: The `tf.Variable`.
    value: Any
    #: What Keras applies to it after each update, or None.
    constraint: Any
    #: Whether more than the optimizer changes it: a constraint, or a layer (`SpectralNormalization`).
    is_moved: bool


class OwnVariables:
    """All variables of a model but its embeddings. Raises ModelError for one that the servers do not hold."""

    def __init__(self, module: Any, graph: Any, entry: str) -> None:
        """`graph`: the model's training, traced."""
        self._entry = entry
        trained, state = _variables(module)
        values = [_value(variable) for variable in trained.values()]
        assigned = _find_assigned(graph, values)
        self._trained = [
            Trained(name, value, variable.constraint, variable.constraint is not None or id(value) in assigned)
            for (name, variable), value in zip(trained.items(), values, strict=True)
        ]
        #: tf.Variables that the optimizer changes, and those that the model itself changes.
        self.trained, self.state = values, [_value(variable) for variable in state.values()]
        #: Where each of the first stands in the dense vector, and names of the second.
        self.weights, self.state_names = _weights(zip(trained, values, strict=True)), list(state)
        self._check_dtypes()
        for weight in self._trained:
            self._constrain(weight, weight.value)

    @property
    def are_bounded(self) -> bool:
        """Whether one of them has a constraint."""
        return any(weight.constraint is not None for weight in self._trained)

    def assign(self, vector: Any, state: Iterable[Any], step: Any) -> None:
        """Give all variables their values; `vector` as `weights` places them. Eagerly or in a function.

        Keras constrains a weight after its update, so first values, of step 0, stay as they are.
        """
        for weight, part in zip(self._trained, self._parts(vector), strict=True):
            value = tf.reshape(part, weight.value.shape)
            weight.value.assign(
                tf.where(step > 0, self._constrain(weight, value), value) if weight.constraint is not None else value
            )
        for variable, value in zip(self.state, state, strict=True):
            variable.assign(tf.reshape(value, variable.shape))

    def measure_moves(self, vector: Any) -> Any:
        """By how much constraints and layers have moved the weights since `vector` was assigned; None: not at all."""
        if not any(weight.is_moved for weight in self._trained):
            return None
        parts = zip(self._trained, self._parts(vector), strict=True)
        return tf.concat(
            [
                tf.reshape(weight.value, [-1]) - part if weight.is_moved else tf.zeros_like(part)
                for weight, part in parts
            ],
            0,
        )

    def _parts(self, vector: Any) -> Sequence[Any]:
        return tf.split(vector, [weight.size for weight in self.weights]) if self.weights else []

    def _constrain(self, trained: Trained, value: Any) -> Any:
        if trained.constraint is None:
            return value
        with user_code(self._entry):
            return tf.convert_to_tensor(trained.constraint(tf.convert_to_tensor(value)))

    def _check_dtypes(self) -> None:
        trained = [(weight.name, weight.value) for weight in self._trained]
        state = list(zip(self.state_names, self.state, strict=True))
        for variables, allowed in ((trained, ("float32",)), (state, _STATE_DTYPES)):
            for name, variable in variables:
                if variable.dtype.name not in allowed:
                    raise ModelError(
                        f"{self._entry}: variable `{name}` is {variable.dtype.name}; the parameter servers hold"
                        f" {', '.join(allowed)} here"
                    )


def _variables(module: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """By name what is trained, and what the model changes by itself; no states of random numbers."""
    if isinstance(module, keras.Model):
        return _name_variables(module.trainable_weights), _name_variables(module.non_trainable_weights)
    layers = module._flatten(predicate=lambda part: isinstance(part, keras.layers.Layer))
    # Those of layers first: a module lists the same ones without their constraints.
    inside = [variable for layer in layers for variable in layer.weights]
    of_layers = {id(_value(variable)): variable for variable in inside}
    every = [of_layers.get(id(variable), variable) for variable in (*module.variables, *inside)]
    return _name_variables(v for v in every if v.trainable), _name_variables(v for v in every if not v.trainable)


def _name_variables(variables: Iterable[Any]) -> dict[str, Any]:
    """By names that are paths without what TensorFlow and file names cannot have, each variable once."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for variable in variables:
        if id(_value(variable)) in seen:
            continue
        seen.add(id(_value(variable)))
        path = getattr(variable, "path", variable.name).split(":")[0]
        name, number = path, 1
        while name in found:
            number += 1
            name = f"{path}_{number}"
        found[name] = variable
    return found


def _value(variable: Any) -> Any:
    """The `tf.Variable` of a Keras variable, or itself."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def _weights(variables: Iterable[tuple[str, Any]]) -> tuple[Weight, ...]:
    weights, offset = [], 0
    for name, variable in variables:
        shape = tuple(variable.shape.as_list())
        weights.append(Weight(name, shape, offset))
        offset += prod(shape)
    return tuple(weights)


def _find_assigned(graph: Any, variables: Sequence[Any]) -> set[int]:
    """Ids of those that the graph assigns to; all of them where a condition, a loop or a function assigns."""
    functions = graph.as_graph_def().library.function
    if any(node.op in _ASSIGNMENTS for function in functions for node in function.node_def):
        return {id(variable) for variable in variables}
    handles = {id(inside): outside for outside, inside in graph.captures}
    targets = [operation.inputs[0] for operation in graph.get_operations() if operation.type in _ASSIGNMENTS]
    outside = {id(handles.get(id(target), target)) for target in targets}
    return {id(variable) for variable in variables if id(variable.handle) in outside}
