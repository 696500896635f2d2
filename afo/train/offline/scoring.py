"""Scores of a model over files, and what they are worth."""

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import tensorflow as tf

from afo.data import model_metrics
from afo.data.io.bad_records import BadRecords
from afo.data.io.local_file import local_file
from afo.data.io.split_files import SplitFile
from afo.data.pipeline.bad_record_locator import Judge
from afo.data.pipeline.split_reader import Lease, SplitReader
from afo.data.schema import Schema
from afo.job import Data, Shuffle
from afo.job_dir.lineage import Evaluation
from afo.logs.task_log import LOG, one_line
from afo.models.parser import DTYPE, RecordParser
from afo.protocol.export_gate import DROPS
from afo.trainable.model_protocol import LocalModel

#: Records computed at once.
BATCH = 8192


class Scored(NamedTuple):
    """B records as numpy arrays."""

    #: [B, labels] each.
    labels: Any
    probabilities: Any
    #: int64 [features of the schema]: how many of the records hold each.
    held: Any


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

    def evaluate(
        self, model: LocalModel, files: Iterable[SplitFile], progress: Callable[[int], None] = lambda _: None
    ) -> Evaluation:
        """All metrics and every feature's coverage. `progress` is told of the records so far. Raises DataError."""
        parts: list[Scored] = []
        samples = 0
        for part in self.scores(model, files):
            parts.append(part)
            samples += len(part.labels)
            progress(samples)
        names = self._data.labels
        blank = np.empty((0, len(names)), np.float32)
        labels = np.concatenate([blank, *(part.labels for part in parts)])
        probabilities = np.concatenate([blank, *(part.probabilities for part in parts)])
        found = model_metrics.by_label(names, labels, probabilities)
        found |= _own(model.metrics(labels, probabilities), {*found, *DROPS})
        held = np.sum([part.held for part in parts], axis=0)
        features = (feature.name for feature in self._schema.features)
        return Evaluation(metrics=found, coverage=dict(zip(features, (held / samples).tolist(), strict=True)))

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


def _own(found: dict[str, float], taken: set[str]) -> dict[str, float]:
    """Metrics of a user's own; they take no name that says something else elsewhere, and files hold no NaN."""
    named = {f"keras_{name}" if name in taken else name: value for name, value in found.items()}
    for name in [name for name, value in named.items() if not math.isfinite(value)]:
        LOG.warning("metric %s is %s, and left out", one_line(name), named.pop(name))
    return named


def in_order(data: Data) -> Data:
    """As `data`, but the records as they lie."""
    return msgspec.structs.replace(data, shuffle=Shuffle(buffer=0), batch_size=BATCH)


def count_held(schema: Schema, features: dict[str, Any]) -> Any:
    """int64 [features of the schema]: of so many of B records some value differs from the feature's default.

    `features` [B, values] each. A record that was written without a feature holds its default afterwards.
    """
    counts = []
    for feature in schema.features:
        values = features[feature.name]
        differs = values != tf.constant(feature.stand_ins(), DTYPE[feature.kind])
        if feature.missing_indicator:
            differs &= ~tf.math.is_nan(values)
        counts.append(tf.math.count_nonzero(tf.reduce_any(differs, axis=1)))
    return tf.stack(counts) if counts else tf.zeros([0], tf.int64)
