"""Lookup of the rows of `Embedding`: in a job of afo the trainer answers, elsewhere nobody does."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf


class Lookup(ABC):
    """Answers for the tables of all layers of a model."""

    @abstractmethod
    def __call__(self, layer: Any, ids: Any) -> Any:
        """Rows of the table of `layer` (an `Embedding`): int64 [...] → float32 [..., output_dim]."""

    def pool(self, layer: Any, ids: Any, counts: Any, weights: Any) -> Any:
        """The rows of ids [B, n] as the layer's combiner makes one of them: float32 [B, output_dim].

        `counts` [B, n]: which ids count at all, None: all; `weights` [B, n]: what each counts, None: 1.
        """
        return pool(self(layer, ids), layer.combiner, counts, weights)

    def distinct(self, layer: Any) -> Any:
        """The different rows that calls of `layer` have named so far: [n, output_dim]; none where nothing trains."""
        return tf.zeros([0, layer.output_dim])


def pool(rows: Any, combiner: str, counts: Any, weights: Any) -> Any:
    """Rows [B, n, dim] → [B, dim]; zeros where the weights sum to 0."""
    shares = tf.ones(tf.shape(rows)[:2], rows.dtype) if weights is None else tf.cast(weights, rows.dtype)
    if counts is not None:
        shares *= tf.cast(counts, rows.dtype)
    total = tf.reduce_sum(rows * shares[:, :, tf.newaxis], axis=1)
    if combiner == "sum":
        return total
    power = 1 if combiner == "mean" else 2
    return tf.math.divide_no_nan(total, tf.reduce_sum(shares**power, axis=1, keepdims=True) ** (1 / power))


_active: list[Lookup] = []


def active() -> Lookup | None:
    """The one that answers now; None outside of a job, where a layer holds its own table."""
    return _active[-1] if _active else None


@contextmanager
def answered_by(lookup: Lookup) -> Iterator[None]:
    """Inside of the block `lookup` answers. Layers that are built there hold no table ever after."""
    _active.append(lookup)
    try:
        yield
    finally:
        _active.pop()
