"""A model out of a checkpoint in one process, without parameter servers: for evaluation and export."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from afo.checkpoint.restore import CheckpointReader
from afo.models import wide_deep
from afo.models.encode import Encoder
from afo.models.feature_layout import Layout
from afo.trainable.served.table_form import TRAINED, TableForm


class LocalWideDeep(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Wide & Deep with its tables as local variables."""

    def __init__(self, layout: Layout, encoder: Encoder, reader: CheckpointReader, form: TableForm = TRAINED) -> None:
        """Raises DataError if the checkpoint is of another model."""
        super().__init__(name="wide_deep")
        self._layout = layout
        self._encoder = encoder
        self.deep = form.dense(self._deep(reader)) if layout.has_deep else None
        self.wide = form.dense(self._wide(reader)) if layout.has_wide else None
        self.dense = _variable(reader.whole("dense"))
        self.statistics = _variable(reader.whole("statistics", "float64"))

    def load(self, reader: CheckpointReader) -> None:
        """Take the values of another checkpoint, one after the other. Raises DataError if it is of another model."""
        if self.deep is not None:
            self.deep.load(self._deep(reader))
        if self.wide is not None:
            self.wide.load(self._wide(reader))
        self.dense.assign(reader.whole("dense"))
        self.statistics.assign(reader.whole("statistics", "float64"))

    def _deep(self, reader: CheckpointReader) -> Any:
        return reader.table("deep", self._layout.deep_rows, self._layout.dim)

    def _wide(self, reader: CheckpointReader) -> Any:
        return reader.table("wide", self._layout.wide_rows, 1)

    def metrics(self, labels: Any, probabilities: Any) -> dict[str, float]:
        """None of its own."""
        return {}

    def probabilities(self, features: dict[str, Any]) -> Any:
        """float32 [B, 1] of parsed features, each [B, values]."""
        encoded = self._encoder(features)
        wide = None
        if self.wide is not None:
            wide = self.wide.lookup(tf.concat([encoded.ids, encoded.crosses], axis=1))[:, :, 0]
        embeddings = None if self.deep is None else self.deep.lookup(encoded.ids)
        return _probabilities(self._layout, embeddings, wide, encoded, self.dense, self.statistics)


class LocalHashedWideDeep(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """The same with its hash tables as they were."""

    def __init__(
        self, layout: Layout, encoder: Encoder, reader: CheckpointReader, absent: Mapping[str, float],
        form: TableForm = TRAINED,
    ) -> None:  # fmt: skip
        """`absent`: the weights of a key without a row by table, 0 where it is silent.

        Raises DataError if the checkpoint is of another model.
        """
        super().__init__(name="wide_deep")
        self._layout = layout
        self._encoder = encoder
        self._dims = dict.fromkeys(layout.deep_tables, layout.dim) | dict.fromkeys(layout.wide_tables, 1)
        self.tables = {
            name: form.make_hash_table(rows, absent.get(name, 0.0))
            for name, rows in reader.hash_tables(self._dims).items()
        }
        self.dense = _variable(reader.whole("dense"))
        self.statistics = _variable(reader.whole("statistics", "float64"))

    def load(self, reader: CheckpointReader) -> None:
        """Take the values of another checkpoint, one after the other. Raises DataError if it is of another model."""
        for name, rows in reader.hash_tables(self._dims).items():
            self.tables[name].load(rows)
        self.dense.assign(reader.whole("dense"))
        self.statistics.assign(reader.whole("statistics", "float64"))

    def metrics(self, labels: Any, probabilities: Any) -> dict[str, float]:
        """None of its own."""
        return {}

    def probabilities(self, features: dict[str, Any]) -> Any:
        """float32 [B, 1] of parsed features, each [B, values]."""
        encoded = self._encoder.keys(features)
        size, layout = tf.shape(encoded.dense)[0], self._layout
        embeddings = wide = None
        if layout.has_deep:
            embeddings = self._look_up(layout.deep_tables, encoded.keys, size, layout.dim)
        if layout.has_wide:
            wide = self._look_up(layout.wide_tables, (*encoded.keys, *encoded.crosses), size, 1)[:, :, 0]
        return _probabilities(layout, embeddings, wide, encoded, self.dense, self.statistics)

    def _look_up(self, names: tuple[str, ...], keys: tuple[Any, ...], size: Any, dim: int) -> Any:
        """[B, values of all features, dim]."""
        if not names:
            return tf.zeros([size, 0, dim])
        return tf.concat(
            [self.tables[name].lookup(feature_keys) for name, feature_keys in zip(names, keys, strict=True)], axis=1
        )


def _probabilities(layout: Layout, embeddings: Any, wide: Any, encoded: Any, vector: Any, statistics: Any) -> Any:
    dense = wide_deep.standardise(encoded.dense, statistics)
    log_odds = wide_deep.logits(layout, embeddings, wide, dense, vector, encoded.shares)
    return tf.sigmoid(log_odds)[:, tf.newaxis]


def _variable(value: Any) -> Any:
    return tf.Variable(value, trainable=False)
