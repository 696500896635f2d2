"""AdamW: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019)."""

from typing import Any

import tensorflow as tf

from afo.job import AdamW
from afo.optimizers.adam import AdamRule


class AdamWRule(AdamRule):
    """weights -= learning_rate * weight_decay * weights, and then as Adam: of all dense weights, and of the rows of a
    table that a batch touches."""

    def __init__(self, options: AdamW) -> None:
        super().__init__(options)
        self._decay = options.learning_rate * options.weight_decay

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """The decay first, as Keras does."""
        before = tf.raw_ops.ReadVariableOp(resource=variable, dtype=gradient.dtype)
        tf.raw_ops.AssignSubVariableOp(resource=variable, value=self._decay * rate * before)
        return super().apply_dense(variable, slots, gradient, rate)

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """The same of the rows alone."""
        before = tf.raw_ops.ResourceGather(resource=variable, indices=rows, dtype=gradient.dtype)
        decayed = tf.raw_ops.ResourceScatterSub(resource=variable, indices=rows, updates=self._decay * rate * before)
        applied = super().apply_sparse(variable, slots, gradient, rows, rate)
        return tf.group(*(operation for operation in (decayed, applied) if operation is not None))
