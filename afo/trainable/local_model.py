"""A model out of a checkpoint in one process, without parameter servers: for evaluation and export."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from afo.checkpoint.restore import CheckpointReader
from afo.models import wide_deep
from afo.models.encode import Encoded, EncodedKeys, Encoder
from afo.models.feature_layout import Layout
from afo.models.user_cut import cut_by_user
from afo.trainable.served.table_form import TRAINED, TableForm
from afo.trainable.user_item import Columns, Rows, Tables, UserItemWideDeep


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
        rows = self._rows(encoded, encoded.ids, encoded.crosses)
        return _probabilities(self._layout, rows, self.dense, self.statistics)

    def for_one_user(self, user_features: frozenset[str]) -> UserItemWideDeep:
        """The same with these features computed once for all items. A part of this model, made of its values now."""
        self.user_item = _for_one_user(self, self._layout, user_features, Tables(self._look_up, self._look_up_crosses))
        return self.user_item

    def _look_up(self, columns: Columns, features: dict[str, Any]) -> Rows:
        part, encoded = columns.part, columns.encoder(features)
        ids = encoded.ids + tf.constant(part.id_shifts, tf.int64)
        return self._rows(encoded, ids, encoded.crosses + tf.constant(part.cross_shifts, tf.int64))

    def _look_up_crosses(self, columns: Columns, features: dict[str, Any]) -> Any:
        assert self.wide is not None  # else the layout has no crosses
        shifts = tf.constant(columns.part.cross_shifts, tf.int64)
        return _scalars(self.wide.lookup(columns.encoder.crosses(features) + shifts))

    def _rows(self, encoded: Encoded, ids: Any, crosses: Any) -> Rows:
        linear = None
        if self.wide is not None:
            linear = _scalars(self.wide.lookup(tf.concat([ids, crosses], axis=1)))
        embeddings = None if self.deep is None else self.deep.lookup(ids)
        return Rows(embeddings, linear, encoded.dense, encoded.shares)


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
        rows = self._rows(self._layout, self._encoder.keys(features))
        return _probabilities(self._layout, rows, self.dense, self.statistics)

    def for_one_user(self, user_features: frozenset[str]) -> UserItemWideDeep:
        """The same with these features computed once for all items. A part of this model, made of its values now."""
        self.user_item = _for_one_user(self, self._layout, user_features, Tables(self._look_up, self._look_up_crosses))
        return self.user_item

    def _look_up(self, columns: Columns, features: dict[str, Any]) -> Rows:
        return self._rows(columns.part.layout, columns.encoder.keys(features))

    def _look_up_crosses(self, columns: Columns, features: dict[str, Any]) -> Any:
        layout = columns.part.layout
        names = layout.wide_tables[len(layout.sparse) :]
        return _scalars(self._rows_of(names, columns.encoder.crosses(features), 0, 1))

    def _rows(self, layout: Layout, encoded: EncodedKeys) -> Rows:
        size, embeddings, linear = tf.shape(encoded.dense)[0], None, None
        if layout.has_deep:
            embeddings = self._rows_of(layout.deep_tables, encoded.keys, size, layout.dim)
        if layout.has_wide:
            linear = _scalars(self._rows_of(layout.wide_tables, (*encoded.keys, *encoded.crosses), size, 1))
        return Rows(embeddings, linear, encoded.dense, encoded.shares)

    def _rows_of(self, names: tuple[str, ...], keys: tuple[Any, ...], size: Any, dim: int) -> Any:
        """[B, values of all features, dim]."""
        if not names:
            return tf.zeros([size, 0, dim])
        tables = [self.tables[name] for name in names]
        return type(tables[0]).lookup_all(tables, keys)


def _for_one_user(
    model: LocalWideDeep | LocalHashedWideDeep, layout: Layout, user_features: frozenset[str], tables: Tables
) -> UserItemWideDeep:
    return UserItemWideDeep(layout, cut_by_user(layout, user_features), tables, model.dense, model.statistics)


def _probabilities(layout: Layout, rows: Rows, vector: Any, statistics: Any) -> Any:
    dense = wide_deep.standardise(rows.dense, statistics)
    log_odds = wide_deep.logits(layout, rows.embeddings, rows.linear, dense, vector, rows.shares)
    return tf.sigmoid(log_odds)[:, tf.newaxis]


def _scalars(rows: Any) -> Any:
    """Rows of one weight, [B, n, 1] → [B, n]. A slice would copy them."""
    return tf.squeeze(rows, axis=2)


def _variable(value: Any) -> Any:
    return tf.Variable(value, trainable=False)
