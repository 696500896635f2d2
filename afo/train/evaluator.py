"""The evaluator: measures every checkpoint that it gets hold of, exactly, on all evaluation files."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import tensorflow as tf

from afo import storage
from afo.data import metrics
from afo.data.local_file import local_file
from afo.data.split_reader import Lease, SplitReader
from afo.data.splits import find_splits
from afo.errors import NotFound
from afo.job import Shuffle
from afo.rpc import messages as m
from afo.train.checkpoint import CheckpointReader
from afo.train.manifest import Found, find_manifests
from afo.train.model import LocalModel
from afo.train.setup import Setup
from afo.train.summaries import Summaries
from afo.train_task import Progress

#: Time between two looks for a new checkpoint.
POLL_S = 1.0
#: Records computed at once.
BATCH = 8192


def run(setup: Setup) -> None:
    """Evaluate newer and newer checkpoints; ends after the final one."""
    evaluator = Evaluator(setup)
    measured: Found | None = None
    while measured is None or not measured.final:
        newest = next(reversed(find_manifests(setup.task.checkpoint_url)), None)
        if newest is None or newest == measured:
            setup.progress.report(Progress(phase="waiting"))
            time.sleep(POLL_S)
            continue
        try:
            evaluator.measure(newest)
        except NotFound:
            # The chief keeps a few checkpoints only; one that went while it was being read is no loss.
            if storage.exists(newest.url):
                raise
            continue
        measured = newest
    setup.progress.report(Progress(phase="done", step=measured.step), now=True)


class Evaluator:
    """Computes exact metrics of a checkpoint over all evaluation files."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._data = msgspec.structs.replace(setup.job.data, shuffle=Shuffle(buffer=0), batch_size=BATCH)
        self._files = find_splits(setup.job.data.eval)
        task = setup.task
        self._summaries = Summaries(task.summary_url, f"eval-a{task.attempt}", setup.work_dir)

    def measure(self, found: Found) -> None:
        """Evaluate one checkpoint and report it. Raises NotFound if it is deleted meanwhile, DataError for bad data."""
        setup = self._setup
        setup.progress.report(Progress(phase="evaluating", step=found.step), now=True)
        with CheckpointReader(found.url, setup.work_dir) as reader:
            model = setup.model.local(reader)
        labels, probabilities = self._predictions(model, found.step)
        values = metrics.by_label(setup.model.labels, labels, probabilities)
        self._summaries.write(found.step, {f"eval/{name}": value for name, value in values.items()})
        self._summaries.publish()
        setup.master.report_eval(
            m.EvalReport(
                task=setup.id,
                generation=found.generation,
                step=found.step,
                manifest=found.url,
                metrics=values,
                final=found.final,
            )
        )

    def _predictions(self, model: LocalModel, step: int) -> tuple[Any, Any]:
        """Labels and probabilities of all records, [records, labels] each."""
        parser = self._setup.parser

        def predict(records: Any) -> tuple[Any, Any]:
            parsed = parser(records)
            return parsed.labels, model.probabilities(parsed.features)

        predict = tf.function(predict, autograph=False).get_concrete_function(parser.signature)
        parts: list[tuple[Any, Any]] = []
        samples = 0
        for records in self._records():
            label, probability = predict(records)
            parts.append((label.numpy(), probability.numpy()))
            samples += len(parts[-1][0])
            self._setup.progress.report(Progress(phase="evaluating", step=step, samples=samples))
        labels, probabilities = zip(*parts, strict=True) if parts else ((), ())
        empty = np.empty((0, len(self._setup.model.labels)))
        return np.concatenate([empty, *labels]), np.concatenate([empty, *probabilities])

    def _records(self) -> Iterator[Any]:
        """String tensors [n] of all files, one after the other."""
        for row, file in enumerate(self._files):
            with local_file(file.url, self._setup.work_dir / f"eval-{row}") as path:
                reader = SplitReader(Lease(row, 0, file.url), path, self._data, BATCH, self._setup.schema)
                while (block := reader.next_block()) is not None:
                    yield block
