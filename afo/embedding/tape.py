"""Gradients of embedding variables, beside those of dense variables."""

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf


class Exchange(Protocol):
    """A question to the servers that was answered: `afo.embedding.exchange.Exchange`, or `PooledExchange`."""

    values: list[Any]

    def apply(self, gradients: Sequence[Any], *, step: Any, schedule: Any) -> list[Any]:
        """Has each server apply the gradient of its values."""


_active: list["EmbeddingTape"] = []


def active() -> "EmbeddingTape | None":
    """The innermost tape that is open: a lookup then creates rows, and its gradients are recorded."""
    return _active[-1] if _active else None


class EmbeddingTape:
    """Records lookups of embedding variables, so that their rows can be updated.

        with afo.EmbeddingTape() as tape:
            x = afo.embedding_lookup(item, ids)
            loss = ...
        dense = tape.gradient(loss, model.trainable_variables)
        tape.apply(step=step)

    Works eagerly and inside of `tf.function`. One gradient can be taken.
    """

    def __init__(self) -> None:
        self._tape = tf.GradientTape()
        self._exchanges: list[Exchange] = []
        self._gradients: list[list[Any]] | None = None

    def __enter__(self) -> "EmbeddingTape":
        self._tape.__enter__()
        _active.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _active.remove(self)
        self._tape.__exit__(*error)

    def record(self, exchange: Exchange) -> None:
        """To be called before anything is made of the values."""
        for values in exchange.values:
            self._tape.watch(values)
        self._exchanges.append(exchange)

    def gradient(self, loss: Any, sources: Sequence[Any] = ()) -> list[Any]:
        """Gradients of `loss` with regard to `sources`; those of the rows are kept for `apply`."""
        values = [exchange.values for exchange in self._exchanges]
        found, self._gradients = self._tape.gradient(loss, (list(sources), values))
        return list(found)

    def apply(self, *, step: Any = 0, schedule: Any = 1.0) -> list[Any]:
        """Updates the rows that were looked up, each variable by its own optimizer; returns the operations.

        `step`: of the training, for what goes by age. `schedule`: factor of the learning rates.
        """
        if self._gradients is None:
            raise RuntimeError("take `tape.gradient(loss, ...)` first")
        operations = []
        for exchange, gradients in zip(self._exchanges, self._gradients, strict=True):
            operations += exchange.apply(gradients, step=step, schedule=schedule)
        return operations
