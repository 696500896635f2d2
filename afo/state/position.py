"""Positions: how far each training file has been applied, kept beside the model, so that both belong together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.pipeline.batch_fragments import Origins
from afo.embedding.pull_push import value_of
from afo.job_dir.lineage import NO_EPOCH
from afo.models.hashing import xor_by_group
from afo.state.step_exchange import Exchange
from afo.state.variables import client_device


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
    """Builds the part of a step that reads and writes positions, step and the model's state: a request, and an update
    for when the servers have applied all others.

    Only the worker that holds a file's lease writes its row, so reading, changing and writing it in one step is safe.
    A worker with several steps in flight knows what its rows will be, and says so by `after`.
    """

    def __init__(self, exchange: Exchange, origin: Origin, after: Any = None) -> None:
        self._origin, self._after = origin, after
        self._states = exchange.states
        self._holders = exchange.parameters.position_holders
        self._files: dict[int, Any] = {}
        self._added: tuple[Any, ...] = ()
        self._step_then: Any = None
        #: Steps applied so far, and the model's state, in the order of `Parameters.state`. Once they were pulled.
        self.step: Any = None
        self.state: tuple[Any, ...] = ()
        #: Of the batch's files once it is applied, [R, 3]. Known from then on: no step waits for an answer at its end.
        self.new: Any = None

    @property
    def steps(self) -> Any:
        """int64 [2]: the steps applied when this one began, and with it. Once it is pushed."""
        with tf.device(client_device()):
            return tf.stack([self.step, value_of(self._step_then)])

    def asked_of(self, server: int) -> list[Any]:
        """The batch's files."""
        return [self._origin.files] if server in self._holders else []

    def answer(self, server: int, asked: Sequence[Any]) -> list[Any]:
        """Steps, state and positions; they are the first server's."""
        self._files[server] = asked[0] if asked else None
        if server:
            return []
        splits = self._files[0] if self._after is None else None
        step, state, positions = self._states[0].read_records(splits)
        return [step, *state] + ([] if positions is None else [positions])

    def take(self, answers: Sequence[Sequence[Any]]) -> None:
        """They are the first server's."""
        step, *state = answers[0]
        before = None if self._after is not None else state.pop()
        self.step, self.state = step, tuple(state)
        self.new = self._after if before is None else positions_after(before, self._origin)

    def add(self, added: tuple[Any, ...]) -> None:
        """What the variables of the model's state grow by."""
        self._added = added

    def given_to(self, server: int) -> list[Any]:
        """Positions, and what is added to the state."""
        positions = [self.new] if server in self._holders else []
        return positions if server else [*positions, *self._added]

    def apply(self, server: int, given: Sequence[Any]) -> list[Any]:
        """Count the batch, write its positions, add to the state."""
        if server not in self._holders:
            return []
        positions, *added = given
        written, step = self._states[server].advance(self._files[server], positions, added)
        if server == 0:
            self._step_then = step
        return written


def list_positions(positions: Any) -> tuple[tuple[int, int, int, int], ...]:
    """(row, epoch, count, unsigned xor) of every split that was begun."""
    return tuple(
        (row, int(epoch), int(count), int(xor) % 2**64)
        for row, (epoch, count, xor) in enumerate(positions)
        if epoch != NO_EPOCH
    )
