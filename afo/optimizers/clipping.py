"""Gradient clipping as `keras.optimizers.Optimizer` has it, of the gradients of one batch."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf


class Clipping(NamedTuple):
    """At most one of them; None does not clip."""

    #: Limit of each element (`clipvalue`).
    value: float | None = None
    #: Limit of the length of each variable's gradient (`clipnorm`), and of all together (`global_clipnorm`).
    norm: float | None = None
    global_norm: float | None = None

    @property
    def clips(self) -> bool:
        """Whether there is a limit."""
        return any(limit is not None for limit in self)

    def clip_values(self, values: Any) -> Any:
        """A gradient with no element beyond `value`; what is not finite stays so, that the step may fail by it."""
        if self.value is None:
            return values
        return tf.where(tf.math.is_finite(values), tf.clip_by_value(values, -self.value, self.value), values)

    def factors(self, squares: Mapping[str, Any]) -> dict[str, Any]:
        """What the gradient of each variable is to be multiplied by; `squares`: the sum of its squares."""
        if self.norm is not None:
            return {name: _factor(self.norm, squared) for name, squared in squares.items()}
        if self.global_norm is not None and squares:
            return dict.fromkeys(squares, _factor(self.global_norm, tf.add_n(list(squares.values()))))
        return {}


def _factor(limit: float, squares: Any) -> Any:
    """1 where the length is within the limit; a length that is no number stays one."""
    return limit / tf.maximum(tf.sqrt(squares), limit)
