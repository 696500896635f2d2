"""From serialized `tf.Example` records to features, label and weight."""

from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.schema import Feature, Kind, Schema
from afo.job import Data
from afo.models import hashing

_DTYPE: dict[Kind, Any] = {"categorical": tf.int64, "string": tf.string, "dense": tf.float32}


class Parsed(NamedTuple):
    """B samples."""

    #: Name → [B, values].
    features: dict[str, Any]
    #: [B, labels] float32 of 0 and 1.
    labels: Any
    #: [B] float32.
    weight: Any
    #: [B] int64: hash of the sample's id, or of the record where it has none.
    identity: Any


class RecordParser:
    """Parses whole batches: one operation for all records and features."""

    def __init__(self, schema: Schema, data: Data) -> None:
        self._data = data
        self.features = {feature.name: _fixed(feature) for feature in schema.features}
        self._all = dict(self.features)
        self._all |= {name: tf.io.FixedLenFeature([], tf.int64) for name in data.labels}
        if data.weight is not None:
            self._all[data.weight] = tf.io.FixedLenFeature([], tf.float32)
        if data.sample_id is not None:
            self._all[data.sample_id] = tf.io.FixedLenFeature([], tf.int64)

    def __call__(self, records: Any) -> Parsed:
        """`records`: string [B]."""
        parsed = tf.io.parse_example(records, self._all)
        data = self._data
        labels = tf.stack([tf.cast(parsed[name], tf.float32) for name in data.labels], axis=1)
        sample_id = None if data.sample_id is None else parsed[data.sample_id]
        hashed = hashing.hash_strings(records) if sample_id is None else hashing.hash_integers(sample_id)
        return Parsed(
            features={name: parsed[name] for name in self.features},
            labels=labels,
            weight=tf.ones_like(labels[:, 0]) if data.weight is None else parsed[data.weight],
            identity=tf.bitcast(hashed, tf.int64),
        )


def _fixed(feature: Feature) -> Any:
    return tf.io.FixedLenFeature([feature.size], _DTYPE[feature.kind], feature.defaults())
