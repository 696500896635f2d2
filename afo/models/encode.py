"""Encoding of parsed features as rows of the tables: hashing, vocabularies, boundaries and crosses."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from afo.errors import SpecError
from afo.models import hashing
from afo.models.feature_layout import Cross, Dense, Layout, Pooling, Sparse


class Encoded(NamedTuple):
    """A batch of B samples as the model reads it."""

    #: [B, ids of a sample] int64: rows of both tables.
    ids: Any
    #: [B, crosses] int64: rows of the linear table.
    crosses: Any
    #: [B, dense values] float32, not yet standardised.
    dense: Any
    #: [B, ids of a sample] float32: what each id counts with; [B, 0] where no feature is a list of values.
    shares: Any


class EncodedKeys(NamedTuple):
    """A batch of B samples as a model on hash tables reads it."""

    #: Of each sparse feature, in the order of `Layout.sparse`: [B, values] int64.
    keys: tuple[Any, ...]
    #: Of each cross: [B, 1] int64.
    crosses: tuple[Any, ...]
    #: As those of `Encoded`.
    dense: Any
    shares: Any


class Encoder:
    """Turns parsed features into `Encoded` or `EncodedKeys`; the same in training, evaluation and the exported model.

    Raises SpecError for a vocabulary of which two values have the same hash.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._vocabularies = {
            column.feature: _Vocabulary(column) for column in layout.sparse if column.how == "vocabulary"
        }
        self._hashed = [column for column in layout.sparse if column.how == "hash"]
        self._buckets = np.repeat([c.buckets for c in self._hashed], [c.values for c in self._hashed]).astype(np.uint64)
        self._offsets = np.repeat(layout.offsets, [column.values for column in layout.sparse]).astype(np.int64)

    def __call__(self, features: dict[str, Any]) -> Encoded:
        """`features`: name → [B, values] of int64, string or float32."""
        size = tf.shape(next(iter(features.values())))[0]
        dense, features = self._dense(features, size)
        places, hashes = self._place_and_hash(features)
        return Encoded(
            ids=self._ids(hashes, places, size),
            crosses=self._cross_rows(hashes, size),
            dense=dense,
            shares=self._shares(features, size),
        )

    def keys(self, features: dict[str, Any]) -> EncodedKeys:
        """The same for a layout that is `hashed`."""
        size = tf.shape(next(iter(features.values())))[0]
        dense, features = self._dense(features, size)
        places, hashes = self._place_and_hash(features)
        keys = [
            places[column.feature] if column.how != "hash" else _key(column, features, hashes)
            for column in self._layout.sparse
        ]
        return EncodedKeys(tuple(keys), self._cross_keys(hashes), dense, self._shares(features, size))

    def crosses(self, features: dict[str, Any]) -> Any:
        """`Encoded.crosses` alone, or `EncodedKeys.crosses`. Some of the `features` may be [1, values]: each of the B
        samples has these."""
        _, hashes = self._place_and_hash(self._bound(features))
        return self._cross_keys(hashes) if self._layout.hashed else self._cross_rows(hashes, size=0)

    def weigh_values(self, column: Sparse, features: dict[str, Any]) -> tuple[Any, Any]:
        """Which values of a list are no padding, bool [B, values], and what they weigh; None each: all, and 1."""
        if column.pooling is None:
            return None, None
        counts = tf.not_equal(features[column.feature], _padding(features[column.feature], column.pooling))
        return counts, features[column.pooling.weights] if column.pooling.weights else None

    def _place_and_hash(self, features: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Places of the features that are not hashed, and hashes of all."""
        columns = self._layout.sparse
        places = {c.feature: self._place(c, features[c.feature]) for c in columns if c.how != "hash"}
        return places, {c.feature: _hashes(c, features[c.feature], places) for c in columns}

    def _dense(self, features: dict[str, Any], size: Any) -> tuple[Any, dict[str, Any]]:
        """The dense inputs, and the features with no value that is missing or beyond its bounds."""
        bounded = self._bound(features)
        parts = [part for column in self._layout.dense for part in _dense(column, bounded, features)]
        return _concat(parts, size, tf.float32), bounded

    def _bound(self, features: dict[str, Any]) -> dict[str, Any]:
        return features | {c.feature: _clip_values(c, features[c.feature]) for c in self._layout.dense}

    def _hash_crosses(self, hashes: dict[str, Any]) -> list[tuple[Cross, Any]]:
        """Each cross and the hash of what it combines, uint64 [B, 1]."""
        sparse = self._layout.sparse
        return [
            (cross, hashing.combine([hashes[sparse[column].feature] for column in cross.columns]))
            for cross in self._layout.crosses
        ]

    def _shares(self, features: dict[str, Any], size: Any) -> Any:
        if not self._layout.has_lists:
            return tf.zeros([size, 0])
        return tf.concat(
            [
                _share(features[column.feature], column.pooling, features)
                if column.pooling
                else tf.ones([size, column.values])
                for column in self._layout.sparse
            ],
            axis=1,
        )

    def _ids(self, hashes: dict[str, Any], places: dict[str, Any], size: Any) -> Any:
        parts = [places[column.feature] for column in self._layout.sparse if column.how != "hash"]
        if self._hashed:
            hashed = tf.concat([hashes[column.feature] for column in self._hashed], axis=1)
            parts.insert(0, tf.cast(hashed % tf.constant(self._buckets), tf.int64))
        return _concat(parts, size, tf.int64) + tf.constant(self._offsets)

    def _cross_keys(self, hashes: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(_to_bucket(hashed, cross.buckets) for cross, hashed in self._hash_crosses(hashes))

    def _cross_rows(self, hashes: dict[str, Any], size: Any) -> Any:
        layout = self._layout
        combined = [hashed for _, hashed in self._hash_crosses(hashes)]
        buckets = np.array([cross.buckets for cross in layout.crosses], np.uint64)
        places = tf.cast(_concat(combined, size, tf.uint64) % tf.constant(buckets), tf.int64)
        return places + tf.constant(np.array(layout.cross_offsets, np.int64))

    def _place(self, column: Sparse, values: Any) -> Any:
        """Bucket by vocabulary or boundaries, int64 [B, values]."""
        if column.how == "vocabulary":
            return self._vocabularies[column.feature].place(values)
        boundaries = tf.constant(column.boundaries, tf.float32)
        flat = tf.searchsorted(boundaries, tf.reshape(values, [-1]), side="right", out_type=tf.int64)
        return tf.reshape(flat, tf.shape(values))


class _Vocabulary:
    """Finds a value by its hash: works for integers and strings alike, and needs no table to be initialised."""

    def __init__(self, column: Sparse) -> None:
        self._is_string = column.is_string
        values = tf.constant(column.vocabulary, tf.string if column.is_string else tf.int64)
        hashes = self._hash_values(values).numpy()
        self._order = np.argsort(hashes)
        self._sorted = hashes[self._order]
        if np.unique(hashes).size < hashes.size:
            raise SpecError(f"feature `{column.feature}`: two values of its vocab have the same hash; use hash_buckets")

    def place(self, values: Any) -> Any:
        """Place of each value in the vocabulary, its length for one that is not in it."""
        hashes = tf.reshape(self._hash_values(values), [-1])
        known = tf.constant(self._sorted)
        nearest = tf.minimum(tf.searchsorted(known, hashes), len(self._sorted) - 1)
        found = tf.gather(known, nearest) == hashes
        places = tf.where(found, tf.gather(tf.constant(self._order, tf.int64), nearest), len(self._sorted))
        return tf.reshape(places, tf.shape(values))

    def _hash_values(self, values: Any) -> Any:
        hashed = hashing.hash_strings(values) if self._is_string else hashing.hash_integers(values)
        return tf.bitcast(hashed, tf.int64)


def _key(column: Sparse, features: dict[str, Any], hashes: dict[str, Any]) -> Any:
    """int64 key of a hashed column: an id is its own."""
    if column.buckets == 0 and not column.is_string:
        return features[column.feature]
    return _to_bucket(hashes[column.feature], column.buckets)


def _to_bucket(hashed: Any, buckets: int) -> Any:
    """int64 of a uint64 hash."""
    return tf.cast(hashed % tf.constant(buckets, tf.uint64), tf.int64) if buckets else tf.bitcast(hashed, tf.int64)


def _concat(parts: list[Any], size: Any, dtype: Any) -> Any:
    return tf.concat(parts, axis=1) if parts else tf.zeros([size, 0], dtype)


def _hashes(column: Sparse, values: Any, places: dict[str, Any]) -> Any:
    """uint64 [B, values] of which crosses and hashed buckets are made."""
    if column.how != "hash":
        return hashing.hash_integers(places[column.feature])
    return hashing.hash_strings(values) if column.is_string else hashing.hash_integers(values)


def _clip_values(column: Dense, values: Any) -> Any:
    """The values with what stands for NaN, clipped."""
    if column.stand_in is not None:
        values = tf.where(tf.math.is_nan(values), column.stand_in, values)
    return tf.clip_by_value(values, *column.clip) if column.clip else values


def _dense(column: Dense, bounded: dict[str, Any], features: dict[str, Any]) -> Iterator[Any]:
    """The inputs of one column, float32 [B, n]; those of a missing value's indicator come last."""
    values = bounded[column.feature]
    if column.pooling is not None:
        values = tf.reduce_sum(values * _share(values, column.pooling, features), axis=1, keepdims=True)
    yield tf.sign(values) * tf.math.log1p(tf.abs(values)) if column.log1p else values
    if column.stand_in is not None:
        yield tf.cast(tf.math.is_nan(features[column.feature]), tf.float32)


def _share(values: Any, pooling: Pooling, features: dict[str, Any]) -> Any:
    """What each of `values` [B, n] counts with in their pooled value, float32 [B, n]; nothing for padding."""
    weights = tf.cast(tf.not_equal(values, _padding(values, pooling)), tf.float32)
    if pooling.weights:
        weights *= features[pooling.weights]
    if pooling.combiner == "sum":
        return weights
    if pooling.combiner == "sqrtn":
        return tf.math.divide_no_nan(weights, tf.sqrt(tf.reduce_sum(weights**2, axis=1, keepdims=True)))
    return tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=1, keepdims=True))


def _padding(values: Any, pooling: Pooling) -> Any:
    return tf.constant(pooling.padding, values.dtype)
