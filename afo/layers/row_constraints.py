"""Regularizers and constraints of a table of which a step has the rows of its batch: what they say must be of rows."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from afo.errors import ModelError

#: What the weights are about that they are tried on: a bound may be anywhere.
_SCALES = (1e-3, 1.0, 1e3, 1e6)
_TOLERANCE = 1e-4
_SMALL = "or use keras.layers.Embedding for a small table"


def require_summed(regularizer: Callable[[Any], Any], layer: str, dim: int) -> None:
    """Raises ModelError unless it is a sum over the rows, [n, dim] → a number: tried on a few."""

    def value(rows: Any) -> Any:
        return np.sum(np.asarray(regularizer(tf.constant(rows)), np.float64))

    if not _goes_by_parts(value, np.add, f"embedding `{layer}`: its `embeddings_regularizer`", dim):
        raise ModelError(
            f"embedding `{layer}` has an `embeddings_regularizer` that is no sum over rows (a mean, a norm of all,"
            " orthogonality), and a step knows those of its batch alone; give it L1, L2, L1L2 or a function that"
            f" sums, {_SMALL}"
        )


def require_by_row(constraint: Callable[[Any], Any], layer: str, dim: int) -> None:
    """Raises ModelError unless it makes of each row [dim] another one, whatever the other rows are: tried on a few."""

    def constrain(rows: Any) -> Any:
        return np.asarray(constraint(tf.constant(rows)))

    def stack_rows(first: Any, second: Any) -> Any:
        return np.concatenate([first, second])

    if not _goes_by_parts(constrain, stack_rows, f"embedding `{layer}`: its `embeddings_constraint`", dim):
        raise ModelError(
            f"embedding `{layer}` has an `embeddings_constraint` that bounds a row by the others (MaxNorm, UnitNorm"
            " and MinMaxNorm go along axis=0 unless told), and a step knows those of its batch alone; give it"
            f" `axis=1`, {_SMALL}"
        )


def _goes_by_parts(function: Callable[[Any], Any], joined: Callable[[Any, Any], Any], what: str, dim: int) -> bool:
    """Whether of all rows it gives what is `joined` of two parts of them. Raises ModelError where it raises."""
    try:
        # Layers may be built while a function is traced.
        with tf.init_scope():
            return all(
                _are_close(function(np.concatenate([first, second])), joined(function(first), function(second)))
                for first, second in _parts(dim)
            )
    except Exception as error:
        raise ModelError(
            f"{what} fails on a few rows: {type(error).__name__}: {error}; it is called with those of a batch, not"
            f" with the whole table; write it for any number of rows, {_SMALL}"
        ) from error


def _parts(dim: int) -> Iterator[tuple[Any, Any]]:
    draw = np.random.default_rng(1)
    for scale in _SCALES:
        rows = (scale * draw.normal(size=(8, dim))).astype(np.float32)
        yield rows[:5], rows[5:]


def _are_close(one: Any, other: Any) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=_TOLERANCE, atol=0, equal_nan=True)
