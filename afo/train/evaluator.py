"""The evaluator: measures every checkpoint that it gets hold of, exactly, on all evaluation files."""

import time

from afo import storage
from afo.checkpoint.manifest import Found, find_manifests, read_evaluation, write_evaluation
from afo.checkpoint.restore import CheckpointReader
from afo.data.io.split_files import find_splits
from afo.errors import NotFound
from afo.formats.units import Interval
from afo.job_dir.lineage import Evaluation
from afo.logs.task_log import LOG, one_line
from afo.protocol.export_gate import add_drops, falls
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.train.offline.scoring import Scorer
from afo.train.setup import Setup
from afo.train.summaries import Summaries
from afo.trainable.model_protocol import LocalModel

#: Time between two looks for a new checkpoint.
POLL_S = 1.0
#: Features that are named whose coverage fell, the largest falls first.
MOST_FALLS = 10


def run(setup: Setup) -> None:
    """Evaluate newer and newer checkpoints; ends after the final one."""
    evaluator, every = Evaluator(setup), setup.job.train.eval_every
    measured: Found | None = None
    while measured is None or not measured.final:
        waiting = choose_checkpoints(find_manifests(setup.task.checkpoint_url), measured, every)
        newest = waiting[-1] if waiting else None
        if newest is None:
            setup.progress.report(Progress(phase="waiting"))
            time.sleep(POLL_S)
            continue
        passed_over = _list_passed_over(waiting, measured) if every.steps is not None else []
        try:
            evaluator.measure(newest, len(passed_over))
        except NotFound:
            # The chief keeps a few checkpoints only; one that went while it was being read is no loss.
            if storage.exists(newest.url):
                raise
            continue
        measured = newest
    setup.progress.report(Progress(phase="done", step=measured.step), now=True)


def choose_checkpoints(found: list[Found], measured: Found | None, every: Interval) -> list[Found]:
    """Checkpoints to measure after `measured`, oldest first: those that pass a multiple, and the final one."""
    newer = [checkpoint for checkpoint in found if measured is None or checkpoint.age > measured.age]
    passing = every.passing(measured.step if measured else 0, (checkpoint.step for checkpoint in newer))
    return [checkpoint for checkpoint, passes in zip(newer, passing, strict=True) if passes or checkpoint.final]


def _list_passed_over(waiting: list[Found], measured: Found | None) -> list[Found]:
    """Those before the newest, which the log names. Of the ones before the first look an evaluator that died may have
    measured some.
    """
    passed_over = [checkpoint for checkpoint in waiting[:-1] if measured or read_evaluation(checkpoint.url) is None]
    if passed_over:
        steps = ", ".join(f"{checkpoint.step:,}" for checkpoint in passed_over)
        LOG.warning("not evaluated, as there are newer checkpoints: step %s; see `train.eval_every`", steps)
    return passed_over


class Evaluator:
    """Computes exact metrics of a checkpoint over all evaluation files."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._files = find_splits(setup.job.data.eval)
        self._scorer = Scorer(setup.schema, setup.parser, setup.job.data, setup.work_dir)
        self._model: LocalModel | None = None
        self._memory = setup.memory
        task = setup.task
        self._summaries = Summaries(task.summary_url, f"eval-a{task.attempt}", setup.work_dir)

    def measure(self, found: Found, passed_over: int = 0) -> None:
        """Evaluate one checkpoint and report it, and how many before it were not evaluated.

        Raises NotFound if it is deleted meanwhile, DataError for bad data.
        """
        setup = self._setup
        setup.progress.report(Progress(phase="evaluating", step=found.step), now=True)
        with CheckpointReader(found.url, setup.work_dir, self._memory) as reader:
            model, lineage = self._load_model(reader), reader.manifest.lineage
        evaluation = self._scorer.evaluate(
            model,
            self._files,
            lambda samples: setup.progress.report(Progress(phase="evaluating", step=found.step, samples=samples)),
        )
        if storage.exists(found.url):  # else nothing would ever delete it
            write_evaluation(found.url, evaluation)
        before = lineage.before.evaluation if lineage else None
        self._report(found, evaluation, before or Evaluation(metrics={}, coverage={}), passed_over)

    def _load_model(self, reader: CheckpointReader) -> LocalModel:
        """One model for all checkpoints: with a new one for each the process would grow. One more when they become too
        large for memory, which they are from then on."""
        if reader.is_large and self._memory > 0:
            self._memory = 0  # and so they stay
            self._model = None  # else both models would be there
            self._scorer.forget()
        if self._model is None:
            self._model = self._setup.model.local(reader)
        else:
            self._model.load(reader)
        return self._model

    def _report(self, found: Found, now: Evaluation, before: Evaluation, passed_over: int) -> None:
        """`before`: of the model that the training was warm-started from."""
        values = add_drops(now.metrics, now.coverage, before.metrics, before.coverage)
        measured = ", ".join(f"{name} {value:.6g}" for name, value in now.metrics.items())
        LOG.info("step %s: %s", f"{found.step:,}", one_line(measured))
        self._summaries.write(found.step, {f"eval/{name}": value for name, value in values.items()})
        self._summaries.publish()
        self._setup.master.report_eval(
            m.EvalReport(
                task=self._setup.id,
                generation=found.generation,
                step=found.step,
                manifest=found.url,
                metrics=values,
                final=found.final,
                falls=falls(before.coverage, now.coverage, MOST_FALLS),
                passed_over=passed_over,
            )
        )
