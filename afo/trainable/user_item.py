"""Wide & Deep for one user and n items: what the user's columns add to the first layer is computed once, not n times.

The first layer's sum over its inputs is one over the user's and one over the items'; so are the linear weights'. Each
part has its own rows of the layer's kernel, taken out once and not in each request.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from afo.models import wide_deep
from afo.models.encode import Encoder
from afo.models.feature_layout import Layout
from afo.models.user_cut import Cut, Part


class Rows(NamedTuple):
    """What B samples are in the tables: [B, ids, dim], [B, ids + crosses]; None without that part of the model."""

    embeddings: Any
    linear: Any
    #: [B, dense values], not yet standardised.
    dense: Any
    #: [B, ids]: as those of `Encoded`.
    shares: Any


class Columns(NamedTuple):
    """Some columns of a model, and what reads them."""

    part: Part
    encoder: Encoder


class Tables(NamedTuple):
    """A model's tables, whatever they are."""

    #: The rows of some columns for features [B, values] each.
    look_up: Callable[[Columns, dict[str, Any]], Rows]
    #: The linear weights of the crosses alone, [B, crosses]; features may be [1, values].
    look_up_crosses: Callable[[Columns, dict[str, Any]], Any]


class UserItemWideDeep(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Of a whole model's tables, dense weights and statistics."""

    def __init__(self, layout: Layout, cut: Cut, tables: Tables, vector: Any, statistics: Any) -> None:
        super().__init__(name="user_item")
        self._layout, self._cut, self._tables = layout, cut, tables
        weights = {name: value.numpy() for name, value in wide_deep.unpack_weights(layout, vector).items()}
        first = weights.pop("layer0/kernel", None)
        self._user = _Side(cut.user, tables, first, statistics)
        self._items = _Side(cut.items, tables, first, statistics)
        self._mixed = Columns(cut.mixed, Encoder(cut.mixed.layout))
        #: All but the first kernel, each by its name.
        self._weights = {name: tf.Variable(value, trainable=False) for name, value in weights.items()}

    def probabilities(self, user: dict[str, Any], items: dict[str, Any]) -> Any:
        """The user's features, [1, values] each, and the items', [n, values] each → float32 [n, 1]."""
        shared = {name: self._repeat(user[name], items) for name in self._cut.shared}
        of_user, of_items = self._user(user), self._items(items | shared)
        total = tf.convert_to_tensor(self._weights["bias"])
        if self._layout.has_wide:
            total = (total + of_user.linear) + of_items.linear
            if self._cut.mixed.layout.crosses:
                total += tf.reduce_sum(self._tables.look_up_crosses(self._mixed, user | items), axis=1)
        if self._layout.has_deep:
            total += wide_deep.deep_for_one_user(self._layout, of_user.inputs, of_items.inputs, self._weights)
        return tf.sigmoid(total)[:, tf.newaxis]

    def _repeat(self, value: Any, items: dict[str, Any]) -> Any:
        return tf.repeat(value, tf.shape(next(iter(items.values())))[0], axis=0)


class _Seen(NamedTuple):
    """What a side's columns are to the model; None without that part of it."""

    #: `wide_deep.FirstInputs`.
    inputs: Any
    #: [B]: a sum of linear weights.
    linear: Any


class _Side(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """The user's columns, or the items'."""

    def __init__(self, part: Part, tables: Tables, kernel: Any, statistics: Any) -> None:
        super().__init__()
        self._columns, self._tables = Columns(part, Encoder(part.layout)), tables
        if part.layout.has_deep:
            self.kernel = tf.Variable(kernel[np.array(part.inputs, np.int64)], trainable=False)
            own = statistics.numpy()[:, np.array(part.dense_inputs, np.int64)]
            self.mean, self.factor = (tf.Variable(each, trainable=False) for each in wide_deep.moments(own))

    def __call__(self, features: dict[str, Any]) -> _Seen:
        layout, rows = self._columns.part.layout, self._tables.look_up(self._columns, features)
        linear = wide_deep.linear_sum(layout, rows.linear, rows.shares) if layout.has_wide else None
        if not layout.has_deep:
            return _Seen(None, linear)
        inputs = wide_deep.pool_embeddings(layout, rows.embeddings, rows.shares)
        if layout.dense:
            dense = wide_deep.standardise_by(rows.dense, self.mean, self.factor)
            inputs = tf.concat([inputs, dense], axis=1) if layout.sparse else dense
        return _Seen(wide_deep.FirstInputs(inputs, self.kernel), linear)
