"""The embedding pipeline of a worker: the next batches' rows come and the last one's gradients go while one computes.

A step in flight is a whole step, run by a thread of its own. Turns keep them apart: one computes at a time, as a user's
model has one set of variables, and they push in the order of their batches, so that no position is ahead of the rows
that belong to it. `depth` bounds by how many of its worker's own updates a batch is stale.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from afo.data.pipeline.batcher import Batch
from afo.errors import TrainingError
from afo.state.position import Origin, positions_after
from afo.state.variables import client_device
from afo.train.step import StepResult, Turns


class Applied(NamedTuple):
    """A batch that the servers have applied; `result` is None where it had no samples."""

    batch: Batch
    result: StepResult | None


class StepFailed(TrainingError):
    """A step that TensorFlow ended by an error, and its batch."""

    def __init__(self, batch: Batch, error: tf.errors.OpError) -> None:
        super().__init__("a step failed")
        self.batch, self.error = batch, error


class Steps(Protocol):
    """How a worker applies its batches, one after another or several at a time."""

    @property
    def in_flight(self) -> int:
        """How many were begun and not waited for."""

    def put(self, batch: Batch, first_step: Any) -> Iterator[Applied]:
        """Apply a batch, now or later; yields what has been applied meanwhile. Raises StepFailed."""

    def drain(self) -> Iterator[Applied]:
        """Wait for what was put. Raises StepFailed."""

    def close(self) -> None:
        """End without waiting for what is left."""


class OneByOne:
    """No pipeline: a batch is applied before the next one is looked at."""

    def __init__(self, step: Callable[[Any, Any], StepResult]) -> None:
        self._step = step
        self.in_flight = 0

    def put(self, batch: Batch, first_step: Any) -> Iterator[Applied]:
        """Apply it."""
        try:
            result = self._step(batch.inputs, first_step) if batch.size else None
        except tf.errors.InvalidArgumentError as error:
            raise StepFailed(batch, error) from error
        yield Applied(batch, result)

    def drain(self) -> Iterator[Applied]:
        """Nothing is left."""
        return iter(())

    def close(self) -> None:
        """Nothing is left."""


class Pipeline:
    """Steps of which `depth` and one more are in flight; batches come out in the order in which they went in."""

    def __init__(
        self, step: Callable[[Any, Any, Any, Turns], StepResult], depth: int,
        position: Callable[[int], tuple[int, int, int]],
    ) -> None:  # fmt: skip
        """`step`: an `overlapping_step_function`. `position`: of a split before this worker's first batch of it."""
        self._step, self._depth, self._position = step, depth, position
        self._pool = ThreadPoolExecutor(depth + 1, thread_name_prefix="step")
        self._compute, self._push = ([_queue() for _ in range(depth + 1)] for _ in range(2))
        for queues in (self._compute, self._push):
            queues[0].enqueue(True)
        self._begun = 0
        self._flying: deque[tuple[Batch, Future[StepResult] | None]] = deque()
        #: Of each split, what its position is once all that flies is applied.
        self._positions: dict[int, Any] = {}

    def put(self, batch: Batch, first_step: Any) -> Iterator[Applied]:
        """Begin it, and wait for the oldest where there are more than `depth` in flight."""
        self._flying.append((batch, self._begin(batch, first_step) if batch.size else None))
        while self._flying and (self._flying[0][1] is None or self.in_flight > self._depth):
            yield self._land()

    @property
    def in_flight(self) -> int:
        """How many were begun and not waited for."""
        return sum(future is not None for _, future in self._flying)

    def drain(self) -> Iterator[Applied]:
        """Wait for all."""
        while self._flying:
            yield self._land()

    def close(self) -> None:
        """End what waits for its turn; what pushes comes to its end."""
        for queue in (*self._compute, *self._push):
            queue.close(cancel_pending_enqueues=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._flying.clear()

    def _begin(self, batch: Batch, first_step: Any) -> "Future[StepResult]":
        number, after = self._begun % (self._depth + 1), (self._begun + 1) % (self._depth + 1)
        queues = (self._compute[number], self._compute[after], self._push[number], self._push[after])
        turns = Turns(*(queue.queue_ref for queue in queues))
        positions = self._advance(batch.inputs.origin)
        self._begun += 1
        return self._pool.submit(self._step, batch.inputs, first_step, positions, turns)

    def _advance(self, origin: Origin) -> Any:
        splits = [int(split) for split in origin.files]
        before = [
            self._positions[split] if split in self._positions else tf.constant(self._position(split), tf.int64)
            for split in splits
        ]
        positions = positions_after(tf.stack(before), origin)
        self._positions |= dict(zip(splits, tf.unstack(positions), strict=True))
        return positions

    def _land(self) -> Applied:
        batch, future = self._flying.popleft()
        try:
            return Applied(batch, None if future is None else future.result())
        except tf.errors.InvalidArgumentError as error:
            raise StepFailed(batch, error) from error


def _queue() -> Any:
    """A queue for one token. Of this process, where steps compute."""
    with tf.device(client_device()):
        return tf.queue.FIFOQueue(1, [tf.bool], shapes=[[]])
