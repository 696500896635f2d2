"""Plain stochastic gradient descent."""

from typing import Any

import tensorflow as tf

from afo.job import Sgd


class SgdRule:
    """weights -= learning_rate * g."""

    slots = ()
    row_slots = ()

    def __init__(self, options: Sgd) -> None:
        self.options = options

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """No state."""
        return ()

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """Locked, for two workers update the same elements at once."""
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=variable, alpha=self.options.learning_rate * rate, delta=gradient, use_locking=True
        )

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """Subtracts from the rows alone."""
        return tf.raw_ops.ResourceScatterSub(
            resource=variable, indices=rows, updates=self.options.learning_rate * rate * gradient
        )
