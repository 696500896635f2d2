"""Parser of Parquet columns into features, labels and weight."""

from typing import Any

import tensorflow as tf

from afo.data.io.columns import Columns, signature
from afo.data.schema import Schema
from afo.job import Data
from afo.models import hashing
from afo.models.records import Parsed, RecordParser


class ColumnParser(RecordParser):
    """Takes columns as their reader has decoded them; `inputs` parses `tf.Example` still, for the exported model."""

    def __init__(self, schema: Schema, data: Data) -> None:
        super().__init__(schema, data)
        self.signature = signature(schema, data, self.specs)

    def __call__(self, records: Columns) -> Parsed:
        """`records`: [B, …] of each column."""
        return self.outputs(records)._replace(features=dict(records.features))

    def keyed_inputs(self, records: Columns) -> tuple[dict[str, Any], Any]:
        """The features and the sample ids, int64 [B]; without such a feature the rows' numbers."""
        return dict(records.features), records.key

    def outputs(self, records: Columns) -> Parsed:
        """Labels, weight and identity, without the features."""
        return Parsed({}, records.labels, self.trained_weight(records.labels, records.weight), self._identity(records))

    def _identity(self, records: Columns) -> Any:
        hashed = hashing.hash_integers(records.key)
        if self._data.sample_id is None:
            hashed = hashing.combine([hashing.hash_integers(records.file), hashed])
        return tf.bitcast(hashed, tf.int64)
