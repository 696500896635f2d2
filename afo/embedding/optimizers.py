"""Update rules of embedding variables. Each runs inside of a row, in one pass over weights and slots.

The formulas are in `afo/core/kernels_impl.h`. The gradients of equal ids of a batch are summed before; a row that a
batch does not name is not touched (what TensorFlow calls lazy).
"""

import math
from typing import ClassVar

import msgspec

from afo.errors import SpecError


class RowOptimizer(msgspec.Struct, frozen=True, kw_only=True):
    """What all rules have. `clip_value` limits each element of a row's summed gradient, `clip_norm` then its length;
    None does not.

    Raises SpecError for a number out of its range.
    """

    #: As `Rule` of afo/core/optimizer.h, and `SlotsOf` it: values of a row's width behind its weights.
    rule: ClassVar[int]
    slots: ClassVar[int]

    learning_rate: float
    clip_value: float | None = None
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            low, high = _RANGES[name]
            if value is not None and not (low <= value <= high and math.isfinite(value)):
                raise SpecError(f"{type(self).__name__}: {name} must be from {low:g} to {high:g} and is {value!r}")

    def numbers(self) -> list[float]:
        """As the operation `AfoAddTable` takes them."""
        return [float(getattr(self, name, None) or 0.0) for name in _ORDER[:-1]] + [
            float(getattr(self, "decay_steps", 1))
        ]


class Sgd(RowOptimizer, frozen=True, kw_only=True):
    """w -= learning_rate * g."""

    rule: ClassVar[int] = 0
    slots: ClassVar[int] = 0

    learning_rate: float = 0.01


class Adagrad(RowOptimizer, frozen=True, kw_only=True):
    """n += g², w -= learning_rate * g / (sqrt(n) + epsilon). Duchi, Hazan and Singer (2011)."""

    rule: ClassVar[int] = 1
    slots: ClassVar[int] = 1

    learning_rate: float = 0.05
    initial_accumulator: float = 0.1
    epsilon: float = 0.0


class Adam(RowOptimizer, frozen=True, kw_only=True):
    """Kingma and Ba (2015), with epsilon beside the uncorrected root. A table counts its own updates, each server
    for itself: no variable is shared by all of them."""

    rule: ClassVar[int] = 2
    slots: ClassVar[int] = 2

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7


class Ftrl(RowOptimizer, frozen=True, kw_only=True):
    """FTRL-Proximal: McMahan et al. (2013), algorithm 1. `forgets_first`: first weights count no more once a row is
    updated, as in Keras; else they are where the row is updated from."""

    rule: ClassVar[int] = 3
    slots: ClassVar[int] = 2

    learning_rate: float = 0.05
    initial_accumulator: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    forgets_first: bool = False


class Momentum(RowOptimizer, frozen=True, kw_only=True):
    """v = momentum * v + g, w -= learning_rate * v; with `nesterov` g + momentum * v in its place.

    A schedule multiplies g, so that v stays what it is in Keras: there the rate of each step is in it.
    """

    rule: ClassVar[int] = 4
    slots: ClassVar[int] = 1

    learning_rate: float = 0.01
    momentum: float = 0.9
    nesterov: bool = False


class AdagradDecay(RowOptimizer, frozen=True, kw_only=True):
    """AdaGrad that forgets: its sums shrink by `decay_rate` for each `decay_steps` steps of the training that passed
    since the row's last update, but not below their first value. DeepRec's optimizer of this name."""

    rule: ClassVar[int] = 5
    slots: ClassVar[int] = 1

    learning_rate: float = 0.05
    initial_accumulator: float = 0.1
    epsilon: float = 0.0
    decay_rate: float = 0.9
    decay_steps: int = 100_000


class AdamW(RowOptimizer, frozen=True, kw_only=True):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), of the rows that a batch names."""

    rule: ClassVar[int] = 6
    slots: ClassVar[int] = 2

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    weight_decay: float = 0.004


class GroupFtrl(RowOptimizer, frozen=True, kw_only=True):
    """FTRL whose `l21` sets whole rows to zero: Ni et al. (2019)."""

    rule: ClassVar[int] = 7
    slots: ClassVar[int] = 2

    learning_rate: float = 0.05
    initial_accumulator: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    l21: float = 0.0


class RMSprop(RowOptimizer, frozen=True, kw_only=True):
    """v = rho * v + (1 - rho) * g², w -= learning_rate * g / sqrt(v + epsilon). Tieleman and Hinton (2012)."""

    rule: ClassVar[int] = 8
    slots: ClassVar[int] = 1

    learning_rate: float = 0.001
    rho: float = 0.9
    epsilon: float = 1e-7


#: As in `OptimizerOf` of afo/ops/tables/op.cc.
_ORDER = (
    "learning_rate", "initial_accumulator", "epsilon", "beta_1", "beta_2", "l1", "l2", "l21", "momentum",
    "weight_decay", "decay_rate", "rho", "clip_value", "clip_norm", "nesterov", "forgets_first", "decay_steps",
)  # fmt: skip
_TINY, _HUGE = 1e-30, 1e30
_RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (_TINY, _HUGE), "initial_accumulator": (0, _HUGE), "epsilon": (0, _HUGE), "beta_1": (0, 0.999999),
    "beta_2": (0, 0.9999999), "l1": (0, _HUGE), "l2": (0, _HUGE), "l21": (0, _HUGE), "momentum": (0, 1),
    "weight_decay": (0, 1), "decay_rate": (0, 1), "clip_value": (_TINY, _HUGE), "clip_norm": (_TINY, _HUGE),
    "nesterov": (0, 1), "decay_steps": (1, 2**24), "rho": (0, 0.9999999), "forgets_first": (0, 1),
}  # fmt: skip
