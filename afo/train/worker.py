"""Worker and chief: take splits, run steps, acknowledge what was applied; the chief also saves and exports."""

import time
from functools import partial
from typing import Literal

from afo.data.pipeline import Batch, TrainingInput
from afo.data.split_reader import Lease
from afo.rpc import messages as m
from afo.train.chief import Chief
from afo.train.cluster import connect
from afo.train.setup import Setup
from afo.train.step import prepare_function, step_function
from afo.train.variables import VariableIo
from afo.train_task import Phase, Progress

#: Time between two questions whether the chief has prepared the variables.
READY_POLL_S = 0.2
#: Longest wait for a batch before the loop looks after its other duties.
INPUT_POLL_S = 0.5
#: Weight of the newest loss in the running mean that is reported.
LOSS_WEIGHT = 0.05


def run(setup: Setup) -> None:
    """Train until the data ends or `train.max_steps` is reached."""
    setup.progress.report(Progress(phase="starting"), now=True)
    keeper = connect(setup.task.ps)
    with keeper:
        Worker(setup).run()


class Worker:
    """One worker's loop over its batches."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._task = setup.task
        self._parameters = setup.parameters(len(setup.task.ps))
        self._positions = VariableIo(self._parameters.positions)
        self._global_step = VariableIo(self._parameters.step)
        self._input: TrainingInput | None = None
        self._chief = Chief(setup, self._parameters) if setup.task.is_chief else None
        #: Position (epoch, count, xor) of each row this process has trained on.
        self._applied: dict[int, tuple[int, int, int]] = {}
        self._step = 0
        self._samples = 0
        self._step_s = 0.0
        self._loss: float | None = None

    def run(self) -> None:
        """From waiting for the variables to the last acknowledgement."""
        self._await_ready()
        setup = self._setup
        prepare = prepare_function(setup.parser, setup.encoder, self._parameters.servers)
        self._train_step = step_function(setup.layout, self._parameters, prepare)
        reading = TrainingInput(
            partial(next_lease, setup, self._positions), setup.schema, setup.job.data, setup.work_dir, prepare
        )
        with reading:
            self._input = reading
            self._report("training", now=True)
            while self._another_step(reading):
                pass
        if self._chief is not None:
            self._chief.finish(self._progress("exporting"))
        self._report("done", now=True)

    def _await_ready(self) -> None:
        """The chief prepares the variables unless that was done before; the others wait until it was."""
        setup, task = self._setup, self._task
        request = m.ReadyRequest(task=setup.id, generation=task.generation)
        while not (reply := setup.master.ready(request)).ready:
            if self._chief is not None:
                self._chief.prepare(reply.restore)
                return
            self._report("waiting")
            time.sleep(READY_POLL_S)

    def _another_step(self, reading: TrainingInput) -> bool:
        """Wait for a batch and apply it; false when training is over."""
        began = time.monotonic()
        batch = reading.get(INPUT_POLL_S)
        if batch == "end":
            return False
        limit = self._setup.job.train.max_steps
        if isinstance(batch, Batch):
            self._apply(batch)
            self._step_s += time.monotonic() - began
        elif limit is not None:
            # Others may have made the last step while this worker has nothing to read.
            self._step = int(self._global_step.read())
        if self._chief is not None:
            self._chief.after_step(self._progress("training"))
        self._report("training")
        return limit is None or self._step < limit

    def _apply(self, batch: Batch) -> None:
        """Run the step. Fetching its values is what makes it sure that the servers have applied the batch."""
        if batch.size:
            result = self._train_step(batch.inputs)
            self._step = int(result.step)
            loss = float(result.loss)
            self._loss = loss if self._loss is None else self._loss + LOSS_WEIGHT * (loss - self._loss)
            for row, position in zip(result.files.numpy(), result.positions.numpy(), strict=True):
                self._applied[int(row)] = (int(position[0]), int(position[1]), int(position[2]))
            self._samples += batch.size
        for lease in batch.ended:
            self._acknowledge(lease)

    def _acknowledge(self, lease: Lease) -> None:
        position = self._applied.get(lease.row)
        if position is None or position[0] != lease.epoch:
            # Nothing of it was left to apply: what is known of it stands on the parameter server.
            position = read_position(self._positions, lease.row)
        epoch, count, xor = position
        if epoch != lease.epoch:
            count = xor = 0
        self._setup.master.ack_split(
            m.SplitAck(
                task=self._setup.id,
                generation=self._task.generation,
                row=lease.row,
                epoch=lease.epoch,
                count=count,
                xor=xor % 2**64,
            )
        )

    def _report(self, phase: Phase, *, now: bool = False) -> None:
        self._setup.progress.report(self._progress(phase), now=now)

    def _progress(self, phase: Phase) -> Progress:
        return Progress(
            phase=phase,
            step=self._step,
            samples=self._samples,
            input_wait_s=0.0 if self._input is None else self._input.wait_s,
            step_s=self._step_s,
            loss=self._loss,
        )


def next_lease(setup: Setup, positions: VariableIo) -> Lease | Literal["wait", "end"]:
    """Ask the Application Master what to read. A split that another process began goes on where the model stands."""
    reply = setup.master.next_split(m.SplitRequest(task=setup.id, generation=setup.task.generation))
    if reply.state != "lease":
        return reply.state
    skip = 0
    if reply.resume:
        epoch, count, _ = read_position(positions, reply.row)
        skip = count if epoch == reply.epoch else 0
    return Lease(reply.row, reply.epoch, reply.url, skip)


def read_position(positions: VariableIo, row: int) -> tuple[int, int, int]:
    """Epoch, count and xor of a split as the model on the parameter servers holds them."""
    epoch, count, xor = positions.read()[row]
    return int(epoch), int(count), int(xor)
