"""Update rules: every optimizer's name, options, defaults and ranges, for the job file and the engine alike.

A rule for dense weights is in `afo/optimizers`, one for the rows of hash tables in `afo/core/kernels_impl.h`; both take
what is declared here.
"""

from typing import Annotated, ClassVar, NamedTuple

from msgspec import Meta
from msgspec.structs import asdict

from afo.errors import SpecError
from afo.formats.type_text import LEAST_FLOAT, MOST_FLOAT
from afo.job.section import Section, check_ranges

Rate = Annotated[float, Meta(ge=LEAST_FLOAT, le=MOST_FLOAT)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Strength = Annotated[float, Meta(ge=0, le=MOST_FLOAT)]
#: Of running means; above these 1 - beta is 0 in float32, and Adam's correction divides by it.
_Kept = Annotated[float, Meta(ge=0, le=0.999999)]


class RowClipping(NamedTuple):
    """Limits of the gradient of a row of a hash table, summed over the batch: of each element, and then of its length;
    None does not clip."""

    value: float | None = None
    norm: float | None = None


class UpdateRule(Section, frozen=True):
    """What all optimizers have. Raises SpecError for a number out of its range, also where Python gives it."""

    #: The key in the job file, and the name of the engine's rule.
    key: ClassVar[str]
    #: Of a row in a hash table, `SlotsOf` afo/core/optimizer.h: values of the row's width behind its weights.
    slots: ClassVar[int]

    learning_rate: Rate

    @property
    def numbers(self) -> dict[str, float]:
        """Its options by the names that `OptimizerOptions` (afo/core/optimizer.h) has for them."""
        return {name: float(value) for name, value in asdict(self).items() if value is not None}

    def __post_init__(self) -> None:
        check_ranges(self)


class Ftrl(UpdateRule, frozen=True):
    """FTRL-Proximal (McMahan et al., 2013)."""

    key: ClassVar[str] = "ftrl"
    slots: ClassVar[int] = 2

    learning_rate: Rate = 0.05
    l1: _Strength = 0.0
    l2: _Strength = 0.0
    initial_accumulator: _Strength = 0.1
    forgets_first: Annotated[
        bool, Meta(description="First weights count no more once they are updated, as in Keras.")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initial_accumulator == 0 and not self.forgets_first:
            raise SpecError("Ftrl: `initial_accumulator` 0 would lose the first weights; allowed: number > 0")


class Adagrad(UpdateRule, frozen=True):
    """AdaGrad (Duchi et al., 2011): n += g², w -= learning_rate * g / (sqrt(n) + epsilon)."""

    key: ClassVar[str] = "adagrad"
    slots: ClassVar[int] = 1

    learning_rate: Rate = 0.05
    initial_accumulator: Rate = 0.1
    epsilon: _Strength = 0.0


class Sgd(UpdateRule, frozen=True):
    """Plain stochastic gradient descent."""

    key: ClassVar[str] = "sgd"
    slots: ClassVar[int] = 0

    learning_rate: Rate = 0.01


class Adam(UpdateRule, frozen=True):
    """Adam (Kingma and Ba, 2015); rows that a batch does not touch stay as they are (lazy)."""

    key: ClassVar[str] = "adam"
    slots: ClassVar[int] = 2

    learning_rate: Rate = 0.001
    beta_1: _Kept = 0.9
    beta_2: _Kept = 0.999
    epsilon: Rate = 1e-7


class AdamW(UpdateRule, frozen=True):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019); of tables the rows that a batch names."""

    key: ClassVar[str] = "adamw"
    slots: ClassVar[int] = 2

    learning_rate: Rate = 0.001
    beta_1: _Kept = 0.9
    beta_2: _Kept = 0.999
    epsilon: Rate = 1e-7
    weight_decay: _Share = 0.004


class Momentum(UpdateRule, frozen=True):
    """Stochastic gradient descent with momentum (Polyak, 1964)."""

    key: ClassVar[str] = "momentum"
    slots: ClassVar[int] = 1

    learning_rate: Rate = 0.01
    momentum: _Share = 0.9
    nesterov: bool = False


class RMSprop(UpdateRule, frozen=True):
    """RMSprop (Tieleman and Hinton, 2012)."""

    key: ClassVar[str] = "rmsprop"
    slots: ClassVar[int] = 1

    learning_rate: Rate = 0.001
    rho: Annotated[_Kept, Meta(description="Share of the mean of squares that is kept at each update.")] = 0.9
    epsilon: Rate = 1e-7


class AdagradDecay(UpdateRule, frozen=True):
    """AdaGrad whose sums shrink by `decay_rate` for every `decay_steps` steps without an update, but not below their
    first value; DeepRec's."""

    key: ClassVar[str] = "adagrad_decay"
    slots: ClassVar[int] = 1

    learning_rate: Rate = 0.05
    initial_accumulator: Rate = 0.1
    epsilon: _Strength = 0.0
    decay_rate: _Share = 0.9
    decay_steps: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000


class GroupFtrl(UpdateRule, frozen=True):
    """FTRL whose `l21` sets whole rows to zero (Ni et al., 2019)."""

    key: ClassVar[str] = "group_ftrl"
    slots: ClassVar[int] = 2

    learning_rate: Rate = 0.05
    initial_accumulator: Rate = 0.1
    l1: _Strength = 0.0
    l2: _Strength = 0.0
    l21: _Strength = 0.0
