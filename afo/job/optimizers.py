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
    floor: Annotated[float, Meta(ge=0, le=1, description="Decay never falls below this.")] = 0.0
    cooldown: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Over this last part of the job's steps it falls linearly to 0.02. Left out: 0.2; 0 with "
             "`checkpoint.warm_start`, and for a model of `entry`, which Keras trains at its own rate."),
    ] = None  # fmt: skip
    steps: Annotated[
        PositiveInt | None,
        Meta(description="Steps of the job, by which `cooldown` goes. Left out: `train.max_steps`, or as many as the "
             "training files and epochs come to, by the length of their first records."),
    ] = None  # fmt: skip


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
