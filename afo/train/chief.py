"""What the chief does beside training: prepare the variables, save them, write summaries, export."""

import sys
import time
from typing import Any

from afo.rpc import messages as m
from afo.train.checkpoint import CheckpointReader, CheckpointWriter, newest_complete, restore
from afo.train.export import export
from afo.train.initialize import NO_EPOCH
from afo.train.manifest import remove_old
from afo.train.parameters import Parameters
from afo.train.setup import Setup
from afo.train.summaries import Summaries
from afo.train_task import Progress

#: Time between two points of a curve.
SUMMARY_S = 5.0


class Chief:
    """The duties of the one worker that is chief."""

    def __init__(self, setup: Setup, parameters: Parameters) -> None:
        self._setup = setup
        self._parameters = parameters
        task, job = setup.task, setup.job
        self._writer = CheckpointWriter(parameters, task.checkpoint_url, setup.work_dir, task.generation)
        self._every_s = min(float(job.checkpoint.every), float(job.train.eval_every))
        self._summaries = Summaries(task.summary_url, f"train-g{task.generation}-a{task.attempt}", setup.work_dir)
        self._saved_at = self._summarised_at = time.monotonic()
        self._summarised: tuple[int, float, float] = (0, 0.0, 0.0)
        self._saved_step = -1

    def prepare(self, manifest_url: str) -> None:
        """Initialise the variables, or restore `manifest_url` or the newest complete one before it; tell the AM."""
        setup = self._setup
        restored, step = "", 0
        if manifest_url:
            setup.progress.report(Progress(phase="restoring"), now=True)
            reader, problems = newest_complete(manifest_url, setup.task.checkpoint_url, setup.work_dir)
            for problem in problems:
                print(f"warning: {problem}; taking {reader.url}", file=sys.stderr)
            with reader:
                restored, step = reader.url, restore(self._parameters, reader)
        else:
            setup.progress.report(Progress(phase="initializing"), now=True)
            setup.model.initialize(self._parameters)
        setup.master.report_ready(
            m.ReadyReport(task=setup.id, generation=setup.task.generation, restored=restored, step=step)
        )
        self._saved_at = time.monotonic()

    def after_step(self, progress: Progress) -> None:
        """Save and summarise when it is time."""
        now = time.monotonic()
        if now - self._summarised_at >= SUMMARY_S and progress.step:
            self._summarise(progress, now - self._summarised_at)
            self._summarised_at = now
        if now - self._saved_at >= self._every_s and progress.step > self._saved_step:
            self._save(final=False)
            self._saved_at = time.monotonic()

    def finish(self, progress: Progress) -> int:
        """The last checkpoint and, out of it, the SavedModel; returns the number of steps of all workers."""
        if progress.step:
            self._summarise(progress, time.monotonic() - self._summarised_at)
        url, report = self._write(final=True)
        setup = self._setup
        setup.progress.report(Progress(phase="exporting", step=report.step), now=True)
        with CheckpointReader(url, setup.work_dir) as reader:
            model = setup.model.local(reader)
            export(model, setup.model.labels, setup.parser, setup.task.export_url, setup.work_dir)
        setup.master.report_checkpoint(report)
        remove_old(setup.task.checkpoint_url, setup.job.checkpoint.keep)
        return report.step

    def _save(self, *, final: bool) -> None:
        _, report = self._write(final=final)
        self._setup.master.report_checkpoint(report)
        remove_old(self._setup.task.checkpoint_url, self._setup.job.checkpoint.keep)

    def _write(self, *, final: bool) -> tuple[str, m.CheckpointReport]:
        url, step, positions = self._writer.save(final=final)
        self._saved_step = step
        self._summaries.publish()
        return url, m.CheckpointReport(
            task=self._setup.id,
            generation=self._setup.task.generation,
            step=step,
            manifest=url,
            positions=_reported(positions),
            final=final,
        )

    def _summarise(self, progress: Progress, seconds: float) -> None:
        samples, waited, worked = self._summarised
        scalars = {
            "train/samples_per_s": (progress.samples - samples) / max(seconds, 1e-9),
            "train/input_wait": (progress.input_wait_s - waited) / max(progress.step_s - worked, 1e-9),
        }
        if progress.loss is not None:
            scalars["train/loss"] = progress.loss
        self._summaries.write(progress.step, scalars)
        self._summarised = progress.samples, progress.input_wait_s, progress.step_s


def _reported(positions: Any) -> tuple[tuple[int, int, int, int], ...]:
    """(row, epoch, count, unsigned xor) of every split that was begun."""
    return tuple(
        (row, int(epoch), int(count), int(xor) % 2**64)
        for row, (epoch, count, xor) in enumerate(positions)
        if epoch != NO_EPOCH
    )
