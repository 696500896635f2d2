"""State of a parameter server in TensorFlow's variables: where the native operations may be missing."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from afo.state.parameters import Parameters
from afo.state.variables import PsVariable, VariableIo, gather_rows, read_value


class VariableStepState:
    """See `afo.state.server_state.StepState`."""

    def __init__(self, parameters: Parameters, server: int) -> None:
        shard, self._rule = parameters.dense.shards[server], parameters.dense.rule
        self._weights, self._slots = shard.weights.handle(), tuple(slot.handle() for slot in shard.slots)
        self._records = {
            name: (variable.handle(), variable.dtype) for name, variable in parameters.records_on(server).items()
        }
        self._state = [self._records[variable.tensor] for variable in parameters.state_on(server)]

    def read_weights(self) -> Any:
        """The variable's value."""
        return read_value(self._weights, "float32")

    def apply_gradient(self, gradient: Any, rate: Any) -> Any:
        """By TensorFlow's operations."""
        return self._rule.apply_dense(self._weights, self._slots, gradient, rate)

    def add_to_weights(self, change: Any) -> Any:
        """In place."""
        return tf.raw_ops.AssignAddVariableOp(resource=self._weights, value=change)

    def read_records(self, splits: Any = None) -> tuple[Any, tuple[Any, ...], Any]:
        """Of the first server."""
        positions = None if splits is None else gather_rows(self._records["positions"][0], splits, "int64")
        step = read_value(*self._records["step"])
        return step, tuple(read_value(*record) for record in self._state), positions

    def advance(self, splits: Any, positions: Any, added: Sequence[Any]) -> tuple[list[Any], Any]:
        """State, position, step, in this order."""
        (of_positions, _), (step, _) = self._records["positions"], self._records["step"]
        written = [
            tf.raw_ops.AssignAddVariableOp(resource=handle, value=value)
            for (handle, _), value in zip(self._state, added, strict=True)
        ]
        written.append(tf.raw_ops.ResourceScatterUpdate(resource=of_positions, indices=splits, updates=positions))
        written.append(tf.raw_ops.AssignAddVariableOp(resource=step, value=tf.constant(1, tf.int64)))
        return written, read_value(step, "int64")


class VariableState:
    """See `afo.state.server_state.ServerState`."""

    def __init__(self, parameters: Parameters, server: int) -> None:
        shard, self._rule = parameters.dense.shards[server], parameters.dense.rule
        self._dense = dict(zip(parameters.dense.tensors, (shard.weights, *shard.slots), strict=True))
        self._records = parameters.records_on(server)
        self._io = functools.cache(VariableIo)

    def create(self) -> None:
        """Made where they live."""

        def create() -> None:
            for variable in self._dense.values():
                _assign(variable, lambda shape=variable.shape: tf.zeros(shape))

        tf.function(create, autograph=False)()

    def reset_weights(self, weights: Any) -> None:
        """The slots never leave the server."""
        weights_there, *slots = self._dense.values()

        def create() -> None:
            with tf.device(weights_there.device):
                first = tf.constant(weights)
                values = (first, *self._rule.initial(first))
            for variable, value in zip((weights_there, *slots), values, strict=True):
                _assign(variable, lambda value=value: value)

        tf.function(create, autograph=False)()

    def read_weights(self) -> dict[str, Any]:
        """One by one."""
        return {name: self._io(variable).read() for name, variable in self._dense.items()}

    def write_weights(self, values: Mapping[str, Any]) -> None:
        """One by one."""
        for name, variable in self._dense.items():
            self._io(variable).assign(values[name])

    def read_records(self) -> dict[str, Any]:
        """The step first: what is read later may be ahead of it, and never behind."""
        return {name: self._io(variable).read() for name, variable in self._records.items()}

    def write_records(self, values: Mapping[str, Any]) -> None:
        """One by one."""
        for name, variable in self._records.items():
            self._io(variable).assign(values[name])

    def read_step(self) -> int:
        """That alone."""
        return int(self._io(self._records["step"]).read())

    def read_position(self, split: int) -> tuple[int, int, int]:
        """One of them, not all: a job may have tens of thousands of files."""
        epoch, count, xor = self._io(self._records["positions"]).read_rows([split])[0]
        return int(epoch), int(count), int(xor)


def _assign(variable: PsVariable, value: Any) -> None:
    handle = variable.handle()
    with tf.device(variable.device):
        tf.raw_ops.AssignVariableOp(resource=handle, value=value())
