"""The embedding pipeline's order: how many steps are in flight, and who computes and pushes when."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow

DEPTH, BATCHES = 2, 12


class Recorder:
    """Steps that only take their turns. What they did stands in `log`, in the order in which it happened."""

    def __init__(self) -> None:
        import tensorflow as tf

        from afo.train.step import Turns

        self.log: list[tuple[str, int]] = []
        self.fails: set[int] = set()
        self._lock = threading.Lock()

        def step(number: Any, turns: Turns) -> Any:
            def take(queue: Any) -> Any:
                return tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.bool])

            def note(what: str) -> Any:
                return tf.py_function(lambda value: self._note(what, int(value)), [number], [])

            with tf.control_dependencies([note("pull")]):
                turn = take(turns.compute)
            with tf.control_dependencies(turn), tf.control_dependencies([note("compute")]):
                tf.raw_ops.QueueEnqueueV2(handle=turns.next_compute, components=[tf.constant(True)])
                turn = take(turns.push)
            with tf.control_dependencies(turn), tf.control_dependencies([note("push")]):
                tf.raw_ops.QueueEnqueueV2(handle=turns.next_push, components=[tf.constant(True)])
            return number

        self._step = tf.function(step, autograph=False)

    def _note(self, what: str, number: int) -> None:
        if what == "compute" and number in self.fails:
            raise ValueError("not finite")
        with self._lock:
            self.log.append((what, number))

    def __call__(self, inputs: Any, _first_step: Any, after: Any, turns: Any) -> Any:
        number = int(inputs.origin.counts[0])
        self._step(number, turns)
        return SimpleNamespace(number=number, after=after.numpy().tolist())


def batches(count: int) -> Iterator[Any]:
    """Batches of one split each, the counts of which tell them apart."""
    import tensorflow as tf

    from afo.data.pipeline.batcher import Batch
    from afo.state.position import Origin

    for number in range(1, count + 1):
        rows = [tf.constant([value], tf.int64) for value in (7, 0, number, number)]
        yield Batch(SimpleNamespace(origin=Origin(*rows)), 1, ())


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def pipeline(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from afo.train.pipeline import Pipeline

    # There are no servers, by which it would have a name.
    monkeypatch.setattr("afo.train.pipeline.client_device", lambda: "/device:CPU:0")
    made = Pipeline(recorder, DEPTH, lambda _: (0, 100, 0))
    yield made
    made.close()


def test_batches_push_in_their_order_and_no_more_than_its_depth_are_ahead(pipeline: Any, recorder: Recorder) -> None:
    applied = [each for batch in batches(BATCHES) for each in pipeline.put(batch, None)]
    assert pipeline.in_flight == DEPTH
    applied += pipeline.drain()
    assert [each.result.number for each in applied] == list(range(1, BATCHES + 1))
    for what in ("compute", "push"):
        assert [number for done, number in recorder.log if done == what] == list(range(1, BATCHES + 1))
    for number in range(1, BATCHES - DEPTH):
        pushed, pulled = recorder.log.index(("push", number)), recorder.log.index(("pull", number + DEPTH + 1))
        assert pushed < pulled, "so many of its own updates a batch is stale, and no more"


def test_a_batch_knows_the_position_of_those_in_flight_before_it(pipeline: Any) -> None:
    applied = [each for batch in batches(4) for each in pipeline.put(batch, None)]
    applied += pipeline.drain()
    counts = [100 + number * (number + 1) // 2 for number in range(1, 5)]
    xors = [1, 3, 0, 4]
    assert [each.result.after for each in applied] == [[[0, *row]] for row in zip(counts, xors, strict=True)]


def test_a_batch_without_samples_comes_out_behind_those_before_it(pipeline: Any) -> None:
    first, second = batches(2)
    empty = first._replace(size=0)
    assert [*pipeline.put(empty, None)] == [(empty, None)]
    assert [*pipeline.put(first, None)] == []
    assert [*pipeline.put(empty, None)] == [], "its split's end must not be told of before the samples are applied"
    assert [each.batch for each in pipeline.put(second, None)] == []
    assert [each.batch.size for each in pipeline.drain()] == [1, 0, 1]


def test_a_step_that_fails_is_named_and_ends_those_that_wait_for_it(pipeline: Any, recorder: Recorder) -> None:
    from afo.train.pipeline import StepFailed

    recorder.fails = {2}
    first, *rest = batches(BATCHES)
    assert [*pipeline.put(first, None)] == []
    applied = (each.result.number for batch in rest for each in pipeline.put(batch, None))
    assert next(applied) == 1
    with pytest.raises(StepFailed) as failed:
        next(applied)
    assert int(failed.value.batch.inputs.origin.counts[0]) == 2
    pipeline.close()
    assert [number for what, number in recorder.log if what == "push"] == [1]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("step")]
