"""Momentum: Polyak (1964), and Nesterov (1983) in the form of Sutskever et al. (2013)."""

from typing import Any

import tensorflow as tf

from afo.job import Momentum


class MomentumRule:
    """velocity = momentum * velocity - learning_rate * g, weights += velocity; with `nesterov`
    weights += momentum * velocity - learning_rate * g.

    A row that a batch does not touch stays where it is, and so does its velocity.
    """

    slots = ("velocity",)
    row_slots = ()

    def __init__(self, options: Momentum) -> None:
        self.options = options

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """At rest."""
        return (tf.zeros_like(weights),)

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """Locked, for two workers update the same elements at once."""
        options = self.options
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable, accum=slots[0], lr=options.learning_rate * rate, grad=gradient, momentum=options.momentum,
            use_nesterov=options.nesterov, use_locking=True,
        )  # fmt: skip

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """Not locked: workers seldom meet in a row, and one that does loses a part of one gradient."""
        options = self.options
        return tf.raw_ops.ResourceSparseApplyKerasMomentum(
            var=variable, accum=slots[0], lr=options.learning_rate * rate, grad=gradient, indices=rows,
            momentum=options.momentum, use_nesterov=options.nesterov,
        )  # fmt: skip
