"""The optimizers that all parts of a model can have."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from afo.job.section import Section

Rate = Annotated[float, Meta(gt=0)]


class Ftrl(Section, frozen=True):
    """FTRL-Proximal (McMahan et al., 2013)."""

    learning_rate: Rate = 0.05
    l1: Annotated[float, Meta(ge=0)] = 0.0
    l2: Annotated[float, Meta(ge=0)] = 0.0
    initial_accumulator: Rate = 0.1


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


class OptimizerChoice(Section, frozen=True):
    """Exactly one optimizer."""

    ftrl: Ftrl | UnsetType = UNSET
    adagrad: Adagrad | UnsetType = UNSET
    sgd: Sgd | UnsetType = UNSET
    adam: Adam | UnsetType = UNSET

    def __post_init__(self) -> None:
        if sum(value is not UNSET for value in (self.ftrl, self.adagrad, self.sgd, self.adam)) != 1:
            raise ValueError("name exactly one optimizer: ftrl, adagrad, sgd or adam")

    @property
    def chosen(self) -> Ftrl | Adagrad | Sgd | Adam:
        """The one that was named."""
        for value in (self.ftrl, self.adagrad, self.sgd, self.adam):
            if not isinstance(value, UnsetType):
                return value
        raise AssertionError("unreachable: __post_init__ demands one")
