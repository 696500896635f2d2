"""RMSprop: Tieleman and Hinton, lecture 6.5 of "Neural Networks for Machine Learning" (2012)."""

from typing import Any

import tensorflow as tf

from afo.job import RMSprop


class RMSpropRule:
    """square = rho * square + (1 - rho) * g², weights -= learning_rate * g / sqrt(square + epsilon)."""

    slots = ("square",)
    row_slots = ()

    def __init__(self, options: RMSprop) -> None:
        self.options = options

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """Zero, as in Keras."""
        return (tf.zeros_like(weights),)

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """Adds, so that of two workers at once none is lost."""
        before = tf.raw_ops.ReadVariableOp(resource=slots[0], dtype=gradient.dtype)
        grown = (1 - self.options.rho) * (tf.square(gradient) - before)
        tf.raw_ops.AssignAddVariableOp(resource=slots[0], value=grown)
        return tf.raw_ops.AssignSubVariableOp(resource=variable, value=self._change(gradient, before + grown, rate))

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """As `apply_dense`, of the rows alone."""
        before = tf.raw_ops.ResourceGather(resource=slots[0], indices=rows, dtype=gradient.dtype)
        grown = (1 - self.options.rho) * (tf.square(gradient) - before)
        added = tf.raw_ops.ResourceScatterAdd(resource=slots[0], indices=rows, updates=grown)
        change = self._change(gradient, before + grown, rate)
        moved = tf.raw_ops.ResourceScatterSub(resource=variable, indices=rows, updates=change)
        return tf.group(*(operation for operation in (added, moved) if operation is not None))

    def _change(self, gradient: Any, square: Any, rate: Any) -> Any:
        return self.options.learning_rate * rate * gradient * tf.math.rsqrt(square + self.options.epsilon)
