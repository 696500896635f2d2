"""A model out of a checkpoint in one process, without parameter servers: for evaluation and export."""

from typing import Any

import tensorflow as tf

from afo.models import wide_deep
from afo.models.encode import Encoder
from afo.models.layout import Layout
from afo.train.checkpoint import CheckpointReader


class LocalWideDeep(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Wide & Deep with its tables as local variables."""

    def __init__(self, layout: Layout, encoder: Encoder, reader: CheckpointReader) -> None:
        """Raises DataError if the checkpoint is of another model."""
        super().__init__(name="wide_deep")
        self._layout = layout
        self._encoder = encoder
        self.deep = _variable(self._deep(reader)) if layout.has_deep else None
        self.wide = _variable(self._wide(reader)) if layout.has_wide else None
        self.dense = _variable(reader.whole("dense"))
        self.statistics = _variable(reader.whole("statistics"))

    def load(self, reader: CheckpointReader) -> None:
        """Take the values of another checkpoint, one after the other. Raises DataError if it is of another model."""
        if self.deep is not None:
            self.deep.assign(self._deep(reader))
        if self.wide is not None:
            self.wide.assign(self._wide(reader))
        self.dense.assign(reader.whole("dense"))
        self.statistics.assign(reader.whole("statistics"))

    def _deep(self, reader: CheckpointReader) -> Any:
        return reader.table("deep", self._layout.deep_rows, self._layout.dim)

    def _wide(self, reader: CheckpointReader) -> Any:
        return reader.table("wide", self._layout.wide_rows, 1)[:, 0]

    def probabilities(self, features: dict[str, Any]) -> Any:
        """float32 [B, 1] of parsed features, each [B, values]."""
        encoded = self._encoder(features)
        wide = None
        if self.wide is not None:
            wide = tf.gather(self.wide, tf.concat([encoded.ids, encoded.crosses], axis=1))
        embeddings = None if self.deep is None else tf.gather(self.deep, encoded.ids)
        dense = wide_deep.standardised(encoded.dense, self.statistics)
        log_odds = wide_deep.logits(self._layout, embeddings, wide, dense, self.dense, encoded.shares)
        return tf.sigmoid(log_odds)[:, tf.newaxis]


def _variable(value: Any) -> Any:
    return tf.Variable(value, trainable=False)
