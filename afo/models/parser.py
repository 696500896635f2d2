"""Parsers of a job's records, serialized `tf.Example` or Parquet columns, into features, labels and weight."""

from collections.abc import Container
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from afo.data.feature import Feature, Kind
from afo.data.io.formats import is_parquet
from afo.data.schema import Schema
from afo.job import Data
from afo.models import hashing
from afo.models.example_parsing import Parse, Reading, fastest, parse_by_tensorflow

if TYPE_CHECKING:
    from afo.data.io.columns import Columns

DTYPE: dict[Kind, Any] = {"categorical": tf.int64, "string": tf.string, "dense": tf.float32}
_STORED = {"int64": tf.int64, "float": tf.float32}


class Parsed(NamedTuple):
    """B samples."""

    #: Name → [B, values].
    features: dict[str, Any]
    #: [B, labels] float32 of 0 and 1.
    labels: Any
    #: [B] float32; of a sampled negative it stands for those that were left out, too.
    weight: Any
    #: [B] int64: hash of the sample's id, or of the record where it has none.
    identity: Any


class RecordParser:
    """Parses whole blocks: one operation for all records and for the features that the schema names."""

    #: What a block of records is: the nest that readers yield and `__call__` takes.
    signature: Any = tf.TensorSpec([None], tf.string)

    def __init__(self, schema: Schema, data: Data, parse: Parse | None = None) -> None:
        """`parse`: by what, the fastest there is unless given."""
        self._data = data
        self._parse = parse
        self._inputs = {feature.name: _reading(feature) for feature in schema.features}
        #: The features by name as the model gets them, [B, values] each.
        self.specs = feature_specs(schema)
        self._outputs = {name: _single_value(schema.stored_as(name, "int64")) for name in data.labels}
        if data.weight is not None:
            self._outputs[data.weight] = _single_value(schema.stored_as(data.weight, "float"))
        if data.sample_id is not None:
            self._outputs[data.sample_id] = _single_value("int64")

    def __call__(self, records: Any) -> Parsed:
        """`records`: string [B]."""
        # The weight may be a feature as well; a record must hold it then, whatever the feature's default.
        parsed = self._parse_records(records, self._inputs | self._outputs)
        return Parsed(self._select_inputs(parsed), *self._extract_outputs(records, parsed))

    def inputs(
        self, records: Any, by: Parse = parse_by_tensorflow, only: Container[str] | None = None
    ) -> dict[str, Any]:
        """The features alone, of `records` (string [B]) that need hold neither label nor weight. `only`: those of them.

        By TensorFlow's own operations unless another parser is named, for a model that is served without ours.
        """
        wanted = self._inputs if only is None else {n: each for n, each in self._inputs.items() if n in only}
        return by(records, wanted)

    def keyed_inputs(self, records: Any) -> tuple[dict[str, Any], Any]:
        """The features of `records` (string [B]), which need hold no label, and their sample ids, int64 [B].

        The ids are all 0 where the job names no feature for them.
        """
        name = self._data.sample_id
        parsed = self._parse_records(records, self._inputs | ({} if name is None else {name: _single_value("int64")}))
        keys = tf.zeros(tf.shape(records), tf.int64) if name is None else parsed[name][:, 0]
        return self._select_inputs(parsed), keys

    def outputs(self, records: Any) -> Parsed:
        """Labels, weight and identity, without the features: what it takes to choose among `records` (string [B])."""
        return Parsed({}, *self._extract_outputs(records, self._parse_records(records, self._outputs)))

    def _parse_records(self, records: Any, readings: dict[str, Reading]) -> dict[str, Any]:
        return (self._parse or fastest())(records, readings)

    def _select_inputs(self, parsed: dict[str, Any]) -> dict[str, Any]:
        return {name: parsed[name] for name in self._inputs}

    def _extract_outputs(self, records: Any, parsed: dict[str, Any]) -> tuple[Any, Any, Any]:
        data = self._data
        labels = _zeros_and_ones(tf.concat([tf.cast(parsed[name], tf.float32) for name in data.labels], axis=1))
        weight = tf.ones_like(labels[:, 0])
        if data.weight is not None:
            weight = tf.reshape(tf.cast(parsed[data.weight], tf.float32), [-1])
        sample_id = None if data.sample_id is None else parsed[data.sample_id][:, 0]
        hashed = hashing.hash_strings(records) if sample_id is None else hashing.hash_integers(sample_id)
        return labels, self.trained_weight(labels, weight), tf.bitcast(hashed, tf.int64)

    def trained_weight(self, labels: Any, weight: Any) -> Any:
        """Weights [B], times that of their class; those of negatives stand for all negatives there were."""
        clicked = tf.reduce_any(labels > 0, axis=1)
        by_class, sampling = self._data.class_weight, self._data.negative_sampling
        if by_class:
            weight = weight * tf.where(clicked, float(by_class.get("1", 1.0)), float(by_class.get("0", 1.0)))
        if sampling is not None and sampling.reweight:
            weight = tf.where(clicked, weight, weight / sampling.keep)
        return weight


class ColumnParser(RecordParser):
    """Takes columns as their reader has decoded them; `inputs` parses `tf.Example` still, for the exported model."""

    def __init__(self, schema: Schema, data: Data) -> None:
        super().__init__(schema, data)
        from afo.data.io.columns import signature  # with pyarrow, 45 MiB that no other job needs

        self.signature = signature(schema, data, self.specs)

    def __call__(self, records: "Columns") -> Parsed:
        """`records`: [B, …] of each column."""
        return self.outputs(records)._replace(features=dict(records.features))

    def keyed_inputs(self, records: "Columns") -> tuple[dict[str, Any], Any]:
        """The features and the sample ids, int64 [B]; without such a feature the rows' numbers."""
        return dict(records.features), records.key

    def outputs(self, records: "Columns") -> Parsed:
        """Labels, weight and identity, without the features."""
        return Parsed({}, records.labels, self.trained_weight(records.labels, records.weight), self._identity(records))

    def _identity(self, records: "Columns") -> Any:
        hashed = hashing.hash_integers(records.key)
        if self._data.sample_id is None:
            hashed = hashing.combine([hashing.hash_integers(records.file), hashed])
        return tf.bitcast(hashed, tf.int64)


def parser_of(schema: Schema, data: Data) -> RecordParser:
    """The parser of a job's records, by the format of its files."""
    if not any(is_parquet(data.format, url) for url in (*data.train, *data.eval)):
        return RecordParser(schema, data)
    return ColumnParser(schema, data)


def feature_specs(schema: Schema) -> dict[str, Any]:
    """The features of a schema as a model gets them: [B, values] each, by name."""
    return {
        feature.name: tf.TensorSpec([None, feature.size], DTYPE[feature.kind], name=feature.name)
        for feature in schema.features
    }


def _reading(feature: Feature) -> Reading:
    any_length = feature.max_length is not None
    return Reading(DTYPE[feature.kind], tuple(feature.defaults()), any_length=any_length)


def _single_value(stored: str) -> Reading:
    return Reading(_STORED[stored], (0,), required=True)


def _zeros_and_ones(labels: Any) -> Any:
    """The labels. Any other number fails like a record that cannot be parsed: of it a log loss means nothing."""
    right = tf.reduce_all(tf.logical_or(tf.equal(labels, 0.0), tf.equal(labels, 1.0)))
    with tf.control_dependencies([tf.debugging.Assert(right, ["a label is neither 0 nor 1"])]):
        return tf.identity(labels)
