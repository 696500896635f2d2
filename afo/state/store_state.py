"""State of a parameter server in the store that its hash tables lie in (afo/core/store.h)."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from afo.embedding.calls import Remote
from afo.embedding.stores import Store
from afo.job_dir.lineage import NO_EPOCH
from afo.optimizers import MomentumRule, Rule
from afo.state.parameters import Parameters, no_positions


class StoreStepState:
    """See `afo.state.server_state.StepState`."""

    def __init__(self, parameters: Parameters, server: int) -> None:
        assert parameters.embeddings is not None
        self._size = parameters.dense.shards[server].weights.shape
        self._state = parameters.state_on(server)
        # Two of them: calls on one keep their order, and neither has to wait for the other.
        self._dense, self._progress = (parameters.embeddings.store(server) for _ in range(2))

    def read_weights(self) -> Any:
        """A copy of them."""
        weights = self._dense.call("read_dense")
        weights.set_shape(self._size)
        return weights

    def apply_gradient(self, gradient: Any, rate: Any) -> Any:
        """By the kernels of hash tables."""
        rate = rate if isinstance(rate, Remote) else tf.cast(rate, tf.float32)
        return self._dense.call("apply_dense", gradient, rate)

    def add_to_weights(self, change: Any) -> Any:
        """In one pass over them."""
        return self._dense.call("move_dense", change)

    def read_records(self, splits: Any = None) -> tuple[Any, tuple[Any, ...], Any]:
        """All of one instant."""
        wanted = tf.zeros([0], tf.int64) if splits is None else splits
        step, positions, *arrays = tf.nest.flatten(
            self._progress.call("read_progress", wanted, T=[each.dtype for each in self._state])
        )
        for array, each in zip(arrays, self._state, strict=True):
            array.set_shape(each.shape)
        return step, tuple(arrays), None if splits is None else positions

    def advance(self, splits: Any, positions: Any, added: Sequence[Any]) -> tuple[list[Any], Any]:
        """All at once."""
        step = self._progress.call("advance", splits, positions, list(added))
        return [step], step


class StoreState:
    """See `afo.state.server_state.ServerState`."""

    def __init__(self, parameters: Parameters, server: int) -> None:
        assert parameters.embeddings is not None
        self._server = parameters.embeddings.link(server)
        self._rule, self._tensors = parameters.dense.rule, parameters.dense.tensors
        self._size = parameters.dense.shards[server].weights.shape[0]
        self._splits = parameters.positions.shape[0]
        self._state = parameters.state_on(server)

    def create(self) -> None:
        """One that is there already as it should be stays as it is."""
        options = self._rule.options.numbers

        self._trace(
            "create_dense", size=self._size, rule=self._rule.options.key, slots=self._rule.options.slots,
            option_names=list(options), options=list(options.values()),
        )()  # fmt: skip

    def reset_weights(self, weights: Any) -> None:
        """The slots are made there."""
        self.create()
        self._trace("reset_dense", _FLOATS)(tf.constant(weights, tf.float32))

    def read_weights(self) -> dict[str, Any]:
        """All at once."""
        weights, slots, updates = (each.numpy() for each in self._export_dense())
        return dict(zip(self._tensors, (weights, *_saved_slots(self._rule, slots, updates)), strict=True))

    def write_weights(self, values: Mapping[str, Any]) -> None:
        """All at once."""
        weights, *saved = (np.asarray(values[name], np.float32) for name in self._tensors)
        slots, updates = _slots_of(self._rule, saved, self._size)
        self._import_dense(tf.constant(weights), tf.constant(slots), tf.constant(updates, tf.int64))

    def read_records(self) -> dict[str, Any]:
        """All of one instant."""
        step, splits, positions, *arrays = tf.nest.flatten(self._export_progress())
        splits = splits.numpy()
        table = no_positions(max([self._splits, *(splits[-1:] + 1)]))
        table[splits] = positions.numpy()
        state = {each.tensor: array.numpy() for each, array in zip(self._state, arrays, strict=True)}
        return {"step": step.numpy(), "positions": table, **state}

    def write_records(self, values: Mapping[str, Any]) -> None:
        """All at once."""
        positions = np.asarray(values["positions"], np.int64)
        splits = np.flatnonzero(positions[:, 0] != NO_EPOCH)
        arrays = [tf.constant(values[each.tensor], each.dtype) for each in self._state]
        step = tf.constant(values["step"], tf.int64)
        self._import_progress(step, tf.constant(splits), tf.constant(positions[splits]), *arrays)

    def read_step(self) -> int:
        """That alone."""
        step, _ = self._read_progress(tf.zeros([0], tf.int64))
        return int(step)

    def read_position(self, split: int) -> tuple[int, int, int]:
        """One of them, not all: a job may have tens of thousands of files."""
        _, positions = self._read_progress(tf.constant([split], tf.int64))
        epoch, count, xor = positions.numpy()[0]
        return int(epoch), int(count), int(xor)

    @cached_property
    def _export_dense(self) -> Any:
        return self._trace("export_dense")

    @cached_property
    def _import_dense(self) -> Any:
        slots = tf.TensorSpec([None, None], tf.float32)
        return self._trace("import_dense", _FLOATS, slots, tf.TensorSpec([], tf.int64))

    @cached_property
    def _export_progress(self) -> Any:
        return self._trace("export_progress", T=self._types)

    @cached_property
    def _import_progress(self) -> Any:
        arrays = [tf.TensorSpec(each.shape, each.dtype) for each in self._state]
        positions = tf.TensorSpec([None, 3], tf.int64)

        def replace(store: Store, step: Any, splits: Any, positions: Any, *arrays: Any) -> None:
            store.call("import_progress", step, splits, positions, list(arrays))

        return self._server.trace(replace, tf.TensorSpec([], tf.int64), _INTS, positions, *arrays)

    @cached_property
    def _read_progress(self) -> Any:
        def read(store: Store, splits: Any) -> Any:
            return tuple(store.call("read_progress", splits, T=self._types)[:2])

        return self._server.trace(read, _INTS)

    @property
    def _types(self) -> list[str]:
        return [each.dtype for each in self._state]

    def _trace(self, function: str, *signature: Any, **attributes: Any) -> Any:
        return self._server.trace(lambda store, *given: store.call(function, *given, **attributes), *signature)


_FLOATS = tf.TensorSpec([None], tf.float32)
_INTS = tf.TensorSpec([None], tf.int64)


def _saved_slots(rule: Rule, slots: Any, updates: Any) -> list[Any]:
    """Slots [slots, n] as checkpoints have them, where Adam counts updates by element."""
    counts = [np.full(slots.shape[1:], updates, np.float32)] if "steps" in rule.slots else []
    return [*(slots * _unit(rule)), *counts]


def _slots_of(rule: Rule, saved: Sequence[Any], size: int) -> tuple[Any, int]:
    """The way back: the slots [slots, n], and how many updates there were."""
    if "steps" not in rule.slots:
        return np.array(saved, np.float32).reshape(-1, size) / _unit(rule), 0
    *slots, counts = saved
    return np.array(slots, np.float32), int(counts.max(initial=0))


def _unit(rule: Rule) -> np.float32:
    """What a slot of a checkpoint is of the store's: a velocity there is a change of the weights, as Keras has it, and
    here in units of the gradient."""
    return np.float32(-rule.options.learning_rate if isinstance(rule, MomentumRule) else 1)
