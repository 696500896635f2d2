"""Worker and chief: take splits, run steps, acknowledge what was applied; the chief also saves and exports."""

import importlib
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from types import FrameType, TracebackType
from typing import Any

import tensorflow as tf

from afo.data.pipeline.batcher import Batch, TrainingInput
from afo.protocol.input_wait import InputWait
from afo.protocol.train_task import WARM_UP, Phase, Progress
from afo.rpc import messages as m
from afo.state.server_connections import connect
from afo.state.server_state import server_state
from afo.train.chief import Chief
from afo.train.failed_step import explain_failure
from afo.train.pipeline import Applied, OneByOne, Pipeline, StepFailed, Steps
from afo.train.setup import Setup
from afo.train.split_client import Splits
from afo.train.step import StepResult, overlapping_step_function, prepare_function, step_function

#: Time between two questions whether the chief has prepared the variables.
READY_POLL_S = 0.2
#: Longest wait for a batch before the loop looks after its other duties.
INPUT_POLL_S = 0.5
#: Time between two questions whether the training is to end early, where it may.
STOP_POLL_S = 5.0
#: Weight of the newest value in the running means that are reported.
LOSS_WEIGHT = 0.05


def run(setup: Setup) -> None:
    """Train until the data ends or `train.max_steps` is reached."""
    setup.progress.report(Progress(phase="starting"), now=True)
    if setup.job.clients_stay:
        importlib.import_module("afo.train.generations").run(setup)
        return
    keeper = connect(setup.task.ps, setup.task.address if setup.task.proxy else "")
    with keeper:
        Worker(setup, TracedStep(setup)).run()


class TracedStep:
    """What of a worker does not change while its process lives: the model's parameters, and the functions of a step."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.parameters = setup.parameters(len(setup.task.ps), setup.task.splits_at_start)

    @cached_property
    def prepare(self) -> Any:
        """See `prepare_function`."""
        return prepare_function(self._setup.model, self._setup.parser, self.parameters.servers)

    @cached_property
    def step(self) -> Any:
        """The function of a step, which takes seconds to build."""
        function = overlapping_step_function if self._setup.job.train.pipeline else step_function
        step = function(self._setup.model, self.parameters, self.prepare)
        step.get_concrete_function()
        return step


class Worker:
    """One worker's loop over its batches, in one generation."""

    def __init__(self, setup: Setup, traced: TracedStep) -> None:
        self._setup = setup
        self._task = setup.task
        self._traced = traced
        self._parameters = traced.parameters
        #: The first server's, which has position and step.
        self._records = server_state(self._parameters, 0)
        self._splits = Splits(setup, self._records.read_position)
        self._input: TrainingInput | None = None
        self._steps: Steps
        self._chief = Chief(setup, self._parameters) if setup.task.is_chief else None
        self._step = 0
        #: What the job began with, above 0 after a warm start.
        self._first_step = tf.zeros([], tf.int64)
        #: Step that ends the training, and the next time to ask whether it is to end before.
        self._last_step: int | None = None
        self._ask_at = 0.0
        self._samples = 0
        self._applying_s = 0.0
        self._loss: float | None = None
        #: Running mean of the updates by others while a step ran.
        self._staleness: float | None = None

    def run(self) -> None:
        """From waiting for the variables to the last acknowledgement."""
        setup = self._setup
        if self._chief is None:
            self._trace()  # while the chief prepares the variables
        self._await_ready()
        if self._chief is not None:
            self._trace()
        reading = TrainingInput(
            self._splits.next_split, setup.schema, setup.job.data, setup.work_dir, setup.parser, self._traced.prepare
        )
        with closing(self._steps), reading, Departure() as departure:
            self._input = reading
            self._report("training", now=True)
            while self._another_step(reading):
                if departure.is_told:
                    self._note(self._steps.drain())
                departure.between_steps()
            self._note(self._steps.drain())
        if self._chief is not None:
            self._step = self._chief.finish(self._progress("exporting"))
        self._report("done", now=True)

    def leave(self) -> None:
        """End what `run` has left where it did not come to its end."""
        if self._chief is not None:
            self._chief.leave()

    def _trace(self) -> None:
        depth, step = self._setup.job.train.pipeline, self._traced.step
        self._steps = Pipeline(step, depth, self._splits.position_of) if depth else OneByOne(step)

    def _await_ready(self) -> None:
        """The chief prepares the variables unless that was done before; the others wait until it was."""
        setup, task = self._setup, self._task
        request = m.ReadyRequest(task=setup.id, generation=task.generation)
        while not (reply := setup.master.ready(request)).ready:
            if self._chief is not None:
                self._begin(self._chief.prepare(reply))
                return
            self._report("waiting")
            time.sleep(READY_POLL_S)
        if self._chief is not None:
            self._chief.resume(reply)
        self._begin(reply.first_step)

    def _begin(self, first_step: int) -> None:
        self._first_step = tf.constant(first_step, tf.int64)
        limit = self._setup.job.train.max_steps
        self._last_step = None if limit is None else first_step + limit

    def _another_step(self, reading: TrainingInput) -> bool:
        """Wait for a batch and apply it; false when training is over."""
        batch = reading.get(INPUT_POLL_S)
        if batch == "end":
            return False
        if isinstance(batch, Batch):
            self._apply(batch)
        else:
            self._note(self._steps.drain())
            if self._last_step is not None or self._chief is not None:
                # Others may have made the last step, or one to save after, while this worker has nothing to read.
                self._step = self._records.read_step()
        if self._chief is not None:
            if self._chief.is_save_due(self._step):
                self._note(self._steps.drain())
            self._chief.after_step(self._progress("training"))
        self._report("training")
        return (self._last_step is None or self._step < self._last_step) and not self._is_to_stop()

    def _is_to_stop(self) -> bool:
        """Whether `train.early_stop` has ended the training; a worker may be in the middle of a large file."""
        if self._setup.job.train.early_stop is None or time.monotonic() < self._ask_at:
            return False
        self._ask_at = time.monotonic() + STOP_POLL_S
        return self._setup.master.ready(m.ReadyRequest(task=self._setup.id, generation=self._task.generation)).stop

    def _apply(self, batch: Batch) -> None:
        """Put it into the pipeline, which does not go beyond the last step."""
        if self._last_step is not None and self._step + self._steps.in_flight >= self._last_step:
            self._note(self._steps.drain())
            if self._step >= self._last_step:
                return
        self._note(self._steps.put(batch, self._first_step))
        if self._step < WARM_UP:
            self._note(self._steps.drain())

    def _note(self, applied: Iterator[Applied]) -> None:
        """Count what the servers have applied, and acknowledge splits that have ended.

        Raises NotFinite or ModelError, which name the batch, for one that cannot be trained on.
        """
        began = time.monotonic()
        try:
            for batch, result in applied:
                if result is not None:
                    self._count(batch, result)
                for ended in batch.ended:
                    self._splits.acknowledge(ended)
        except StepFailed as failed:
            raise self._explain(failed) from failed.__cause__
        finally:
            self._applying_s += time.monotonic() - began

    def _count(self, batch: Batch, result: StepResult) -> None:
        """Fetching its values is what makes it sure that the servers have applied the batch."""
        before, self._step = (int(step) for step in result.steps.numpy())
        # The first step of a process sets its functions up on the servers, which takes as long as many steps.
        if self._samples:
            self._staleness = _running(self._staleness, self._step - before - 1)
        self._loss = _running(self._loss, float(result.loss))
        self._splits.note_applied(result.files.numpy(), result.positions.numpy())
        self._samples += batch.size

    def _explain(self, failed: StepFailed) -> Exception:
        inputs, error = failed.batch.inputs, failed.error
        reason = explain_failure(
            error, self._setup.model, self._parameters, inputs, self._records.read_step() + 1,
            [self._splits.urls[int(split)] for split in inputs.origin.files], self._setup.job.model.entry,
        )  # fmt: skip
        return error if reason is None else reason

    def _report(self, phase: Phase, *, now: bool = False) -> None:
        self._setup.progress.report(self._progress(phase), now=now)

    def _progress(self, phase: Phase) -> Progress:
        waited = InputWait() if self._input is None else self._input.waited
        return Progress(
            phase=phase,
            generation=self._task.generation,
            step=self._step,
            samples=self._samples,
            input_wait=waited,
            step_s=waited.total + self._applying_s,
            loss=self._loss,
            staleness=self._staleness,
        )


def _running(mean: float | None, value: float) -> float:
    return float(value) if mean is None else mean + LOSS_WEIGHT * (value - mean)


class Departure:
    """While it is entered, in the main thread, SIGTERM waits for `between_steps`; a Child kills who takes too long."""

    def __init__(self) -> None:
        #: Whether the signal came.
        self.is_told = False
        self._before: Any = signal.SIG_DFL

    def __enter__(self) -> "Departure":
        self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.is_told = True

    def between_steps(self) -> None:
        """End this process by the signal, if it came."""
        if self.is_told:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.between_steps()
        signal.signal(signal.SIGTERM, self._before)
