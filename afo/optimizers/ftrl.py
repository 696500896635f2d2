"""FTRL-Proximal: McMahan et al., "Ad Click Prediction: a View from the Trenches" (2013), algorithm 1."""

from typing import Any

import tensorflow as tf

from afo.job import Ftrl


class FtrlRule:
    """With n the accumulator, z the linear slot, a the learning rate, r the factor of a schedule:

    n' = n + g², z += r * g - (sqrt(n') - sqrt(n)) / a * w,
    w = 0 where |z| <= l1, else (sign(z) * l1 - z) / (sqrt(n') / a + 2 * l2).

    z holds what all earlier rates have made of the weights, so another a would also rescale the weights learned so
    far (with a of 0 they would be gone). The factor is therefore the gradient's: without l1 and l2 this is AdaGrad's
    w -= r * a * g / sqrt(n').
    """

    slots = ("accumulator", "linear")
    row_slots = ()

    def __init__(self, options: Ftrl) -> None:
        self.options = options

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """`linear` is what makes the rule give back the first weights for a gradient of zero (exact for l1 = 0), or
        zero where these are to be forgotten."""
        options = self.options
        accumulator = tf.fill(tf.shape(weights), tf.constant(options.initial_accumulator, weights.dtype))
        if options.forgets_first:
            return accumulator, tf.zeros_like(weights)
        linear = -weights * (options.initial_accumulator**0.5 / options.learning_rate + 2 * options.l2)
        return accumulator, linear

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """Locked, for two workers update the same elements at once."""
        if not (isinstance(rate, float) and rate == 1.0):
            # The operation adds the whole g to z; both on one handle keep their order.
            tf.raw_ops.AssignSubVariableOp(resource=slots[1], value=(1 - rate) * gradient)
        return tf.raw_ops.ResourceApplyFtrl(
            var=variable, accum=slots[0], linear=slots[1], grad=gradient, use_locking=True, **self._rates()
        )

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """Not locked: workers seldom meet in a row, and one that does loses a part of one gradient."""
        if not (isinstance(rate, float) and rate == 1.0):
            tf.raw_ops.ResourceScatterSub(resource=slots[1], indices=rows, updates=(1 - rate) * gradient)
        return tf.raw_ops.ResourceSparseApplyFtrl(
            var=variable, accum=slots[0], linear=slots[1], grad=gradient, indices=rows, **self._rates()
        )

    def _rates(self) -> dict[str, float]:
        options = self.options
        return {"lr": options.learning_rate, "l1": options.l1, "l2": options.l2, "lr_power": -0.5}
