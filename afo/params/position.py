"""Positions: how far each training file has been applied, kept beside the model, so that both belong together."""

from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.pipeline.batch_fragments import Origins
from afo.models.hashing import xor_by_group
from afo.params.initialize import NO_EPOCH
from afo.params.parameters import Parameters
from afo.params.variables import PsVariable, gather_rows, ps_device, read_value


class Origin(NamedTuple):
    """Where a batch comes from, int64 [R] each: files, their epoch, samples of each, xor of their hashed ids.

    Samples that were left out on the way (`afo.data.pipeline.batch_fragments`) count as well: they were read.
    """

    files: Any
    epochs: Any
    counts: Any
    xors: Any


def origin_of(identity: Any, origins: Origins) -> Origin:
    """`identity` int64 [B] are the samples' hashed ids."""
    unique, group = tf.unique(origins.files, out_idx=tf.int64)
    size = tf.size(unique)
    return Origin(
        files=unique,
        epochs=tf.math.unsorted_segment_max(origins.epochs, group, size),
        counts=tf.math.unsorted_segment_sum(origins.left_out + 1, group, size),
        xors=xor_by_group(tf.bitwise.bitwise_xor(identity, origins.xors), group, size),
    )


class Position:
    """Builds the part of a step that reads and writes positions, step and the model's state.

    Only the worker that holds a file's lease writes its row, so reading, changing and writing it in one step is safe.
    """

    def __init__(self, parameters: Parameters, origin: Origin) -> None:
        self._origin = origin
        self._parameters = parameters
        everything = (*parameters.counters, *parameters.copies.values())
        self._handles = {variable.name: variable.handle() for variable in everything}
        with tf.device(ps_device(0)):
            self._before = gather_rows(self._handle(parameters.positions), origin.files, "int64")
            #: Steps applied so far.
            self.step = read_value(self._handle(parameters.step), "int64")
            #: The model's state, in the order of `Parameters.state`.
            self.state = tuple(read_value(self._handle(variable), variable.dtype) for variable in parameters.state)
        #: Of the batch's files once it is applied. Known from the start, so the end of a step waits for no answer.
        self._new = self._advance()

    def advance(self, added: tuple[Any, ...]) -> tuple[Any, Any]:
        """Count the batch and add to the state.

        Returns int64 [2] (the steps applied when this one began, and with it) and the new positions [R, 3].
        """
        after, parameters = self._new, self._parameters
        with tf.device(ps_device(0)):
            for variable, value in zip(parameters.state, added, strict=True):
                tf.raw_ops.AssignAddVariableOp(resource=self._handle(variable), value=value)
            tf.raw_ops.ResourceScatterUpdate(
                resource=self._handle(parameters.positions), indices=self._origin.files, updates=after
            )
            step = self._handle(parameters.step)
            tf.raw_ops.AssignAddVariableOp(resource=step, value=tf.constant(1, tf.int64))
            steps = tf.stack([self.step, read_value(step, "int64")])
        for copy in parameters.copies.values():
            self._advance_copy(copy, after)
        return steps, after

    def _advance_copy(self, copy: PsVariable, after: Any) -> None:
        with tf.device(copy.device):
            if copy in self._parameters.places(self._parameters.positions):
                tf.raw_ops.ResourceScatterUpdate(resource=self._handle(copy), indices=self._origin.files, updates=after)
            else:
                tf.raw_ops.AssignAddVariableOp(resource=self._handle(copy), value=tf.constant(1, tf.int64))

    def _advance(self) -> Any:
        """Positions after the batch; a row of an earlier epoch begins anew."""
        origin, before = self._origin, self._before
        goes_on = tf.cast(before[:, 0] == origin.epochs, tf.int64)
        count = before[:, 1] * goes_on + origin.counts
        xor = tf.bitwise.bitwise_xor(before[:, 2] * goes_on, origin.xors)
        return tf.stack([origin.epochs, count, xor], axis=1)

    def _handle(self, variable: PsVariable) -> Any:
        return self._handles[variable.name]


def list_positions(positions: Any) -> tuple[tuple[int, int, int, int], ...]:
    """(row, epoch, count, unsigned xor) of every split that was begun."""
    return tuple(
        (row, int(epoch), int(count), int(xor) % 2**64)
        for row, (epoch, count, xor) in enumerate(positions)
        if epoch != NO_EPOCH
    )
