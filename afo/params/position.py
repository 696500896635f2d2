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


def positions_after(before: Any, origin: Origin) -> Any:
    """Positions [R, 3] of a batch's files once it is applied; a row of an earlier epoch begins anew."""
    goes_on = tf.cast(before[:, 0] == origin.epochs, tf.int64)
    count = before[:, 1] * goes_on + origin.counts
    xor = tf.bitwise.bitwise_xor(before[:, 2] * goes_on, origin.xors)
    return tf.stack([origin.epochs, count, xor], axis=1)


class Position:
    """Builds the part of a step that reads and writes positions, step and the model's state.

    Only the worker that holds a file's lease writes its row, so reading, changing and writing it in one step is safe.
    A worker with several steps in flight knows what its rows will be, and says so by `after`.
    """

    def __init__(self, parameters: Parameters, origin: Origin, after: Any = None) -> None:
        self._origin = origin
        self._parameters = parameters
        everything = (*parameters.counters, *parameters.copies.values())
        self._handles = {variable.name: variable.handle() for variable in everything}
        with tf.device(ps_device(0)):
            before = gather_rows(self._handle(parameters.positions), origin.files, "int64") if after is None else None
            #: Steps applied so far.
            self.step = read_value(self._handle(parameters.step), "int64")
            #: The model's state, in the order of `Parameters.state`.
            self.state = tuple(read_value(self._handle(variable), variable.dtype) for variable in parameters.state)
        #: Of the batch's files once it is applied. Known from the start, so the end of a step waits for no answer.
        self._new = positions_after(before, origin) if after is None else after

    def advance(self, added: tuple[Any, ...]) -> tuple[Any, Any, list[Any]]:
        """Count the batch and add to the state.

        Returns int64 [2] (the steps applied when this one began, and with it), the new positions [R, 3], and the
        operations that write.
        """
        after, parameters = self._new, self._parameters
        with tf.device(ps_device(0)):
            written = [
                tf.raw_ops.AssignAddVariableOp(resource=self._handle(variable), value=value)
                for variable, value in zip(parameters.state, added, strict=True)
            ]
            written.append(self._write(parameters.positions))
            step = self._handle(parameters.step)
            written.append(tf.raw_ops.AssignAddVariableOp(resource=step, value=tf.constant(1, tf.int64)))
            steps = tf.stack([self.step, read_value(step, "int64")])
        written += [self._advance_copy(copy) for copy in parameters.copies.values()]
        return steps, after, written

    def _advance_copy(self, copy: PsVariable) -> Any:
        with tf.device(copy.device):
            if copy in self._parameters.places(self._parameters.positions):
                return self._write(copy)
            return tf.raw_ops.AssignAddVariableOp(resource=self._handle(copy), value=tf.constant(1, tf.int64))

    def _write(self, positions: PsVariable) -> Any:
        return tf.raw_ops.ResourceScatterUpdate(
            resource=self._handle(positions), indices=self._origin.files, updates=self._new
        )

    def _handle(self, variable: PsVariable) -> Any:
        return self._handles[variable.name]


def list_positions(positions: Any) -> tuple[tuple[int, int, int, int], ...]:
    """(row, epoch, count, unsigned xor) of every split that was begun."""
    return tuple(
        (row, int(epoch), int(count), int(xor) % 2**64)
        for row, (epoch, count, xor) in enumerate(positions)
        if epoch != NO_EPOCH
    )
