"""The section `optimizer`."""

from typing import Annotated, Literal

from msgspec import Meta

from afo.job.optimizer import Adagrad, Ftrl, OptimizerChoice
from afo.job.row_optimizer import RowOptimizer
from afo.job.section import MOST_INT, PositiveInt, Section


class Schedule(Section, frozen=True):
    """A factor of every learning rate, by the number of steps of all workers."""

    warmup_steps: Annotated[int, Meta(ge=0, le=MOST_INT, description="Rises from 0 to 1 in so many steps.")] = 0
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
    embedding: Annotated[
        RowOptimizer | None, Meta(description="Of the embeddings in hash tables. Left out: as `deep`.")
    ] = None
    schedule: Schedule = Schedule()

    @property
    def deep_or_default(self) -> OptimizerChoice:
        """The optimizer of all but the linear part where the model itself brings none."""
        return self.deep or OptimizerChoice(adagrad=Adagrad())

    mode: Annotated[Literal["async"], Meta(description="Workers never wait for each other.")] = "async"
