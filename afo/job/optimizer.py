"""The optimizers that all parts of a model can have."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from afo.job.section import Section

Rate = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Ftrl(Section, frozen=True):
    """FTRL-Proximal (McMahan et al., 2013)."""

    learning_rate: Rate = 0.05
    l1: Annotated[float, Meta(ge=0)] = 0.0
    l2: Annotated[float, Meta(ge=0)] = 0.0
    initial_accumulator: Rate = 0.1
    forgets_first: Annotated[
        bool, Meta(description="First weights count no more once they are updated, as in Keras.")
    ] = False


class Adagrad(Section, frozen=True):
    """AdaGrad (Duchi et al., 2011)."""

    learning_rate: Rate = 0.05
    initial_accumulator: Rate = 0.1


class Sgd(Section, frozen=True):
    """Plain stochastic gradient descent."""

    learning_rate: Rate = 0.01


class Adam(Section, frozen=True):
    """Adam (Kingma and Ba, 2015); rows that a batch does not touch stay as they are (lazy)."""

    learning_rate: Rate = 0.001
    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Rate = 1e-7


class AdamW(Section, frozen=True):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019); of tables the rows that a batch names."""

    learning_rate: Rate = 0.001
    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Rate = 1e-7
    weight_decay: Share = 0.004


class Momentum(Section, frozen=True):
    """Stochastic gradient descent with momentum (Polyak, 1964)."""

    learning_rate: Rate = 0.01
    momentum: Share = 0.9
    nesterov: bool = False


class RMSprop(Section, frozen=True):
    """RMSprop (Tieleman and Hinton, 2012)."""

    learning_rate: Rate = 0.001
    rho: Annotated[float, Meta(ge=0, lt=1, description="Of the mean of squares, what is kept at each update.")] = 0.9
    epsilon: Rate = 1e-7


AnyOptimizer = Ftrl | Adagrad | Sgd | Adam | AdamW | Momentum | RMSprop


class OptimizerChoice(Section, frozen=True):
    """Exactly one optimizer."""

    ftrl: Ftrl | UnsetType = UNSET
    adagrad: Adagrad | UnsetType = UNSET
    sgd: Sgd | UnsetType = UNSET
    adam: Adam | UnsetType = UNSET
    adamw: AdamW | UnsetType = UNSET
    momentum: Momentum | UnsetType = UNSET
    rmsprop: RMSprop | UnsetType = UNSET

    def __post_init__(self) -> None:
        if len(self._named) != 1:
            *others, last = self.__struct_fields__
            raise ValueError(f"name exactly one optimizer: {', '.join(others)} or {last}")

    @property
    def chosen(self) -> AnyOptimizer:
        """The one that was named."""
        return self._named[0]

    @property
    def _named(self) -> list[AnyOptimizer]:
        return [value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET]
