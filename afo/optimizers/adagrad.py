"""AdaGrad: Duchi, Hazan and Singer (2011)."""

from typing import Any

import tensorflow as tf

from afo.job import Adagrad


class AdagradRule:
    """accumulator += g², weights -= learning_rate * g / (sqrt(accumulator) + epsilon)."""

    slots = ("accumulator",)
    row_slots = ()

    def __init__(self, options: Adagrad) -> None:
        self.options = options

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """The accumulator starts above zero, so that the first steps are bounded."""
        return (tf.fill(tf.shape(weights), tf.constant(self.options.initial_accumulator, weights.dtype)),)

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """Locked, for two workers update the same elements at once."""
        return tf.raw_ops.ResourceApplyAdagradV2(
            var=variable, accum=slots[0], lr=self.options.learning_rate * rate, epsilon=self.options.epsilon,
            grad=gradient, use_locking=True,
        )  # fmt: skip

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """Not locked: workers seldom meet in a row, and one that does loses a part of one gradient."""
        return tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=variable, accum=slots[0], lr=self.options.learning_rate * rate, epsilon=self.options.epsilon,
            grad=gradient, indices=rows,
        )  # fmt: skip
