"""Serialized `tf.Example` records to columns, by our operation or by TensorFlow's.

Both give the same; ours is faster (`benchmarks/bench_input.py`). TensorFlow's is for processes without our operations
and for exported models that are served without us. It refuses more than protobuf does: a value in front of its key,
or fields that it does not know. And 2.21's may abort its process for more floats than a feature of a fixed length has,
if they are not packed: it writes them before it counts them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from afo.ops import library


class Reading(NamedTuple):
    """How a feature is read: a column [B, len(fill)]."""

    dtype: Any
    #: What stands for absent values; also says how many there are.
    fill: tuple[Any, ...]
    #: Whether a record must have it.
    required: bool = False
    #: Any number of values a record, cut off and filled up; else all of them or none.
    any_length: bool = False


#: (string [B], name → how it is read) → name → [B, values]. Raises InvalidArgumentError for records that do not fit.
Parse = Callable[[Any, Mapping[str, Reading]], dict[str, Any]]


def fastest() -> Parse:
    """Ours where this process can have it."""
    return parse_by_tensorflow if library.load_if_present() is None else parse


def parse(records: Any, readings: Mapping[str, Reading]) -> dict[str, Any]:
    """By the operation of `afo/ops/example`. Raises Unsupported where there is none."""
    values = library.load().afo_parse_example(
        records=records,
        fills=[tf.constant(reading.fill, reading.dtype) for reading in readings.values()],
        names=list(readings),
        any_length=[reading.any_length for reading in readings.values()],
        required=[reading.required for reading in readings.values()],
    )
    return dict(zip(readings, values, strict=True))


def parse_by_tensorflow(records: Any, readings: Mapping[str, Reading]) -> dict[str, Any]:
    """By `tf.io.parse_example` and what TensorFlow has for lists."""
    parsed = tf.io.parse_example(records, {name: _config(reading) for name, reading in readings.items()})
    return {
        name: _pad_lists(parsed[name], reading) if reading.any_length else parsed[name]
        for name, reading in readings.items()
    }


def _config(reading: Reading) -> Any:
    if reading.any_length:
        return tf.io.RaggedFeature(reading.dtype, row_splits_dtype=tf.int64)
    default = None if reading.required else reading.fill
    return tf.io.FixedLenFeature([len(reading.fill)], reading.dtype, default)


def _pad_lists(ragged: Any, reading: Reading) -> Any:
    """[B, values] of a list of values for each record. (`to_tensor` forgets the width if all lists are empty.)"""
    values = tf.concat([ragged.values, tf.constant(reading.fill[:1], ragged.dtype)], axis=0)
    places = tf.range(len(reading.fill), dtype=tf.int64)
    inside = places < ragged.row_lengths()[:, tf.newaxis]
    padding = tf.size(ragged.values, tf.int64)
    return tf.gather(values, tf.where(inside, ragged.row_starts()[:, tf.newaxis] + places, padding))
