"""The section `optimizer`."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from afo.job.section import PositiveInt, Section

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


class Schedule(Section, frozen=True):
    """A factor of every learning rate, by the number of steps of all workers."""

    warmup_steps: Annotated[int, Meta(ge=0, description="Rises from 0 to 1 in so many steps.")] = 0
    decay: Annotated[
        Literal["none", "exponential", "linear", "cosine"], Meta(description="How it falls after the warm-up.")
    ] = "none"
    decay_steps: Annotated[
        PositiveInt, Meta(description="Steps of one multiplication by `decay_rate`, or down to `floor`.")
    ] = 100_000
    decay_rate: Annotated[float, Meta(gt=0, le=1, description="Of `exponential`.")] = 0.5
    floor: Annotated[float, Meta(ge=0, le=1, description="It never falls below this.")] = 0.0


class Optimizer(Section, frozen=True):
    """How gradients are applied."""

    wide: OptimizerChoice = OptimizerChoice(ftrl=Ftrl())
    deep: Annotated[
        OptimizerChoice | None,
        Meta(description="Of all but the linear part. Left out: AdaGrad, or what `entry`'s model was compiled with."),
    ] = None
    schedule: Schedule = Schedule()

    @property
    def deep_or_default(self) -> OptimizerChoice:
        """The optimizer of all but the linear part where the model itself brings none."""
        return self.deep or OptimizerChoice(adagrad=Adagrad())

    mode: Annotated[Literal["async"], Meta(description="Workers never wait for each other.")] = "async"
