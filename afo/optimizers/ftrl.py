"""FTRL-Proximal: McMahan et al., "Ad Click Prediction: a View from the Trenches" (2013), algorithm 1."""

from typing import Any

import tensorflow as tf

from afo.job import Ftrl


class FtrlRule:
    """With n the accumulator, z the linear slot, a the learning rate:

    n' = n + g², z += g - (sqrt(n') - sqrt(n)) / a * w,
    w = 0 where |z| <= l1, else (sign(z) * l1 - z) / (sqrt(n') / a + 2 * l2).
    """

    slots = ("accumulator", "linear")

    def __init__(self, options: Ftrl) -> None:
        self._options = options

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """`linear` is what makes the rule give back the first weights for a gradient of zero (exact for l1 = 0)."""
        options = self._options
        accumulator = tf.fill(tf.shape(weights), tf.constant(options.initial_accumulator, weights.dtype))
        linear = -weights * (options.initial_accumulator**0.5 / options.learning_rate + 2 * options.l2)
        return accumulator, linear

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any) -> Any:
        """Locked, for two workers update the same elements at once."""
        return tf.raw_ops.ResourceApplyFtrl(
            var=variable, accum=slots[0], linear=slots[1], grad=gradient, use_locking=True, **self._rates()
        )

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any) -> Any:
        """Not locked: workers seldom meet in a row, and one that does loses a part of one gradient."""
        return tf.raw_ops.ResourceSparseApplyFtrl(
            var=variable, accum=slots[0], linear=slots[1], grad=gradient, indices=rows, **self._rates()
        )

    def _rates(self) -> dict[str, float]:
        options = self._options
        return {"lr": options.learning_rate, "l1": options.l1, "l2": options.l2, "lr_power": -0.5}
