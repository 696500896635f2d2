"""Rows of weights as a served model keeps them: float32, or in fewer bytes that each lookup makes float32 again.

bfloat16   rounded to the nearest: off by 2**-8 of the weight at most
int8       code = round(weight / scale), scale = max|row| / 127, a float32 beside each row; a lookup gives code * scale,
           off by max|row| / 254 at most

Rows of up to 4 weights are bfloat16 where int8 is asked for: with their scale they would be as large, and less exact.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from afo.errors import DataError
from afo.job import RowType

#: int8 takes dim + 4 bytes a row, bfloat16 2 * dim.
_LEAST_INT8_DIM = 5
_MOST_CODE = 127


class Encoded(NamedTuple):
    """Rows as they are kept: values [n, dim], and of int8 the scales [n], else None."""

    values: Any
    scales: Any


class StoredRows(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Rows by their number, in variables."""

    def __init__(self, weights: Any, rows: RowType = "float32") -> None:
        """`weights`: float32 [n, dim], or what `encode_rows` made of them for `rows`.

        Raises DataError where `rows` cannot hold them.
        """
        super().__init__(name="rows")
        self._asked = rows
        shape = tf.TensorShape([None])
        values, scales = self._encode(weights)
        self.values = tf.Variable(values, trainable=False, shape=shape.concatenate(values.shape[1:]))
        self.scales = None if scales is None else tf.Variable(scales, trainable=False, shape=shape)

    def load(self, weights: Any) -> None:
        """Take other rows, of the same width. Raises DataError as at first."""
        values, scales = self._encode(weights)
        self.values.assign(values)
        if self.scales is not None:
            self.scales.assign(scales)

    def lookup(self, places: Any) -> Any:
        """int [...], each the number of a row → float32 [..., dim]."""
        values = tf.cast(tf.gather(self.values, places), tf.float32)
        return values if self.scales is None else values * tf.gather(self.scales, places)[..., tf.newaxis]

    def _encode(self, weights: Any) -> Encoded:
        if isinstance(weights, Encoded):
            return weights
        return encode_rows(weights, stored_type(self._asked, weights.shape[1]))


def stored_type(rows: RowType, dim: int) -> RowType:
    """What rows of `dim` weights are kept as where `rows` is asked for."""
    return "bfloat16" if rows == "int8" and dim < _LEAST_INT8_DIM else rows


def encode_rows(weights: Any, rows: RowType) -> Encoded:
    """Of float32 [n, dim], as `rows`.

    Raises DataError for int8 of weights that are not finite, which have no scale.
    """
    if rows == "float32":
        return Encoded(weights, None)
    if rows == "bfloat16":
        return Encoded(weights.astype(tf.bfloat16.as_numpy_dtype), None)
    scales = np.max(np.abs(weights), axis=1, initial=0.0) / np.float32(_MOST_CODE)
    if not np.isfinite(scales).all():
        raise DataError("an embedding table holds weights that are not finite: int8 cannot; use `rows: float32`")
    exact = np.divide(weights, scales[:, np.newaxis], out=np.zeros_like(weights), where=scales[:, np.newaxis] > 0)
    return Encoded(np.clip(np.rint(exact), -_MOST_CODE, _MOST_CODE).astype(np.int8), scales)


def decode_rows(values: Any, scales: Any) -> Any:
    """float32 [n, dim]: what lookups make of what `encode_rows` gave."""
    weights = values.astype(np.float32)
    return weights if scales is None else weights * scales[:, np.newaxis]
