"""Scores of a model over files; observers measure what they are worth."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import tensorflow as tf

from afo.data.io.bad_records import BadRecords
from afo.data.io.local_file import local_file
from afo.data.io.split_files import SplitFile
from afo.data.pipeline.bad_record_locator import Judge
from afo.data.pipeline.split_reader import Lease, SplitReader
from afo.data.schema import Schema
from afo.job import Data, Shuffle
from afo.job_dir.lineage import Evaluation
from afo.models.parser import RecordParser
from afo.train.offline.observers import Counter, Coverage, Metrics, Observer, Scored, count_held
from afo.trainable.model_protocol import LocalModel

#: Records computed at once.
BATCH = 8192


class Scorer:
    """Computes the scores of one model after another, file by file."""

    def __init__(self, schema: Schema, parser: RecordParser, data: Data, scratch: Path) -> None:
        self._schema, self._parser, self._scratch = schema, parser, scratch
        self._data = in_order(data)
        self._traced: tuple[LocalModel, Any] | None = None

    def scores(self, model: LocalModel, files: Iterable[SplitFile]) -> Iterator[Scored]:
        """Of all good records in the order in which they lie. Raises DataError for more bad ones than are allowed."""
        compute = self._function(model)
        bad = BadRecords(self._data.max_bad_records)
        judge = Judge(self._schema, self._data, bad, self._parser)
        good = 0
        for row, file in enumerate(files):
            with local_file(file.url, self._scratch / f"scored-{row}") as path:
                lease = Lease(row, 0, file.url)
                reader = SplitReader(lease, path, self._data, BATCH, self._schema, bad)
                while (block := reader.next_block()) is not None:
                    scored = Scored(*(tensor.numpy() for tensor in judge.compute(compute, block, lease, path)))
                    good += len(scored.labels)
                    yield scored
        bad.judge(good + bad.total, "the files")

    def observe(self, model: LocalModel, files: Iterable[SplitFile], observers: Sequence[Observer]) -> None:
        """Tell each observer of all scores, a batch at a time. Raises DataError."""
        for scored in self.scores(model, files):
            for observer in observers:
                observer.observe(scored)

    def evaluate(
        self, model: LocalModel, files: Iterable[SplitFile], progress: Callable[[int], None] = lambda _: None
    ) -> Evaluation:
        """All metrics and every feature's coverage. `progress` is told of the records so far. Raises DataError."""
        metrics, coverage = Metrics(self._data.labels, model), Coverage(self._schema)
        self.observe(model, files, [metrics, coverage, Counter(progress)])
        return Evaluation(metrics=metrics.result(), coverage=coverage.result())

    def forget(self) -> None:
        """Hold no model any more."""
        self._traced = None

    def _function(self, model: LocalModel) -> Any:
        """Traced once for a model, whatever it loads."""
        if self._traced is None or self._traced[0] is not model:
            self._traced = model, self._trace(model)
        return self._traced[1]

    def _trace(self, model: LocalModel) -> Any:
        def compute(records: Any) -> tuple[Any, Any, Any]:
            parsed = self._parser(records)
            return parsed.labels, model.probabilities(parsed.features), count_held(self._schema, parsed.features)

        return tf.function(compute, autograph=False).get_concrete_function(self._parser.signature)


def in_order(data: Data) -> Data:
    """As `data`, but the records as they lie."""
    return msgspec.structs.replace(data, shuffle=Shuffle(buffer=0), batch_size=BATCH)
