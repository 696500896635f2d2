"""Adam: Kingma and Ba (2015), algorithm 1 in the form of its section 2 (epsilon beside the uncorrected root)."""

from typing import Any

import tensorflow as tf

from afo.job import Adam, AdamW


class AdamRule:
    """With m the running mean of g, v that of g² and t the number of updates:

    m += (1 - beta_1) * (g - m), v += (1 - beta_2) * (g² - v),
    weights -= learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon).

    Lazy, as LazyAdam of TensorFlow Addons: a row that a batch does not touch keeps its weights and its moments, where
    Adam would move it on by its old mean. That one counts the steps of the whole training; here every row counts its
    own updates in the slot `steps`. So no variable is shared by all updates, a row that first comes late begins with
    the step that its first gradient deserves, and the count moves with its row when rows are resharded, added or taken
    from another model. All elements of a dense vector have the same count; its largest is taken.
    """

    slots = ("mean", "square", "steps")
    row_slots = ("steps",)

    def __init__(self, options: Adam | AdamW) -> None:
        self.options = options

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """All start at zero; float32 counts to 2^24, where the corrections have long been 1."""
        return tf.zeros_like(weights), tf.zeros_like(weights), tf.zeros(tf.shape(weights)[:1], weights.dtype)

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """Locked, for two workers update the same elements at once."""
        options, (mean, square, steps) = self.options, slots
        tf.raw_ops.AssignAddVariableOp(resource=steps, value=tf.ones_like(gradient))
        count = tf.reduce_max(tf.raw_ops.ReadVariableOp(resource=steps, dtype=gradient.dtype))
        return tf.raw_ops.ResourceApplyAdam(
            var=variable, m=mean, v=square, beta1_power=options.beta_1**count, beta2_power=options.beta_2**count,
            lr=options.learning_rate * rate, beta1=options.beta_1, beta2=options.beta_2, epsilon=options.epsilon,
            grad=gradient, use_locking=True,
        )  # fmt: skip

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """Not locked: workers seldom meet in a row, and one that does loses a part of one gradient."""
        options, (mean, square, steps) = self.options, slots
        added = tf.raw_ops.ResourceScatterAdd(resource=steps, indices=rows, updates=tf.ones_like(gradient[:, 0]))
        count = tf.raw_ops.ResourceGather(resource=steps, indices=rows, dtype=gradient.dtype)
        new_mean, set_mean = _update_mean(mean, rows, gradient, options.beta_1)
        new_square, set_square = _update_mean(square, rows, tf.square(gradient), options.beta_2)
        length = options.learning_rate * rate * tf.sqrt(1 - options.beta_2**count) / (1 - options.beta_1**count)
        change = length[:, tf.newaxis] * new_mean / (tf.sqrt(new_square) + options.epsilon)
        moved = tf.raw_ops.ResourceScatterSub(resource=variable, indices=rows, updates=change)
        return tf.group(*(operation for operation in (added, set_mean, set_square, moved) if operation is not None))


def _update_mean(slot: Any, rows: Any, value: Any, keep: float) -> tuple[Any, Any]:
    """Rows of a running mean after one more value, and the operation that writes them."""
    before = tf.raw_ops.ResourceGather(resource=slot, indices=rows, dtype=value.dtype)
    after = before + (1 - keep) * (value - before)
    return after, tf.raw_ops.ResourceScatterUpdate(resource=slot, indices=rows, updates=after)
