"""Scores of whole files as CSV: a line a record, in the order in which they lie."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from afo import storage
from afo.data.io.bad_records import BadRecords
from afo.data.io.local_file import local_file
from afo.data.pipeline.bad_record_locator import Judge
from afo.data.pipeline.split_reader import Lease, SplitReader
from afo.data.schema import Schema
from afo.job import Data
from afo.models.parser import RecordParser
from afo.protocol.offline_task import NumberedFile, ScoredFile
from afo.train.offline.scoring import BATCH, in_order
from afo.trainable.model_protocol import LocalModel


class Prediction:
    """Writes the scores of one model. The files need hold no label."""

    def __init__(self, schema: Schema, parser: RecordParser, data: Data, model: LocalModel, scratch: Path) -> None:
        self._schema, self._parser, self._data, self._scratch = schema, parser, in_order(data), scratch
        self._bad = BadRecords(data.max_bad_records)
        self._judge = Judge(schema, data, self._bad, parser.keyed_inputs)
        self._compute = self._function(model)

    def write(self, files: Iterable[NumberedFile], output: str) -> Iterator[ScoredFile]:
        """A file `part-<number>.csv` for each, whole or not at all.

        Raises DataError if more of all records are bad than the model's job allows.
        """
        good = 0
        for file in files:
            part = f"part-{file.number:05d}.csv"
            records = 0
            with storage.open_output(storage.join(output, part)) as lines:
                lines.write(f"{self._data.sample_id or 'record'},{','.join(self._columns())}\n".encode())
                for keys, probabilities in self._scores(file):
                    named = keys if self._data.sample_id else range(records, records + len(keys))
                    lines.write(_lines(named, probabilities))
                    records += len(keys)
            good += records
            yield ScoredFile(file.url, part, records)
        self._bad.judge(good + self._bad.total, "the files")

    def _columns(self) -> tuple[str, ...]:
        return self._data.labels if len(self._data.labels) > 1 else ("probability",)

    def _scores(self, file: NumberedFile) -> Iterator[tuple[Any, Any]]:
        """Ids [B] and probabilities [B, labels] of one block after another."""
        lease = Lease(file.number, 0, file.url)
        with local_file(file.url, self._scratch / f"scored-{file.number}") as path:
            reader = SplitReader(lease, path, self._data, BATCH, self._schema, self._bad, labelled=False)
            while (block := reader.next_block()) is not None:
                keys, probabilities = self._judge.compute(self._compute, block, lease, path)
                yield keys.numpy(), probabilities.numpy()

    def _function(self, model: LocalModel) -> Any:
        def compute(records: Any) -> tuple[Any, Any]:
            features, keys = self._parser.keyed_inputs(records)
            return keys, model.probabilities(features)

        return tf.function(compute, autograph=False).get_concrete_function(self._parser.signature)


def _lines(keys: Iterable[int], probabilities: Any) -> bytes:
    values = (",".join(f"{value:.9g}" for value in row) for row in probabilities.tolist())
    return "".join(f"{key},{row}\n" for key, row in zip(keys, values, strict=True)).encode()
