"""The section `optimizer`."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from afo.job.section import MOST_INT, PositiveInt, Section, check_ranges
from afo.job.update_rules import (
    Adagrad,
    AdagradDecay,
    Adam,
    AdamW,
    Ftrl,
    GroupFtrl,
    Momentum,
    Rate,
    RMSprop,
    RowClipping,
    Sgd,
    UpdateRule,
)


class _Optimizers(Section, frozen=True):
    """Those that all parts of a model can have, by their keys."""

    ftrl: Ftrl | UnsetType = UNSET
    adagrad: Adagrad | UnsetType = UNSET
    sgd: Sgd | UnsetType = UNSET
    adam: Adam | UnsetType = UNSET
    adamw: AdamW | UnsetType = UNSET
    momentum: Momentum | UnsetType = UNSET
    rmsprop: RMSprop | UnsetType = UNSET

    @property
    def _named(self) -> dict[str, UpdateRule]:
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in given.items() if isinstance(value, UpdateRule)}


class OptimizerChoice(_Optimizers, frozen=True):
    """Exactly one optimizer, of those that all parts of a model can have."""

    def __post_init__(self) -> None:
        if len(self._named) != 1:
            *others, last = self.__struct_fields__
            raise ValueError(f"name exactly one optimizer: {', '.join(others)} or {last}")

    @property
    def chosen(self) -> UpdateRule:
        """The one that was named."""
        return next(iter(self._named.values()))


class RowOptimizer(_Optimizers, frozen=True):
    """For embeddings in hash tables: one optimizer, or, with none, that of `deep`; and clipping of gradients."""

    adagrad_decay: AdagradDecay | UnsetType = UNSET
    group_ftrl: GroupFtrl | UnsetType = UNSET
    clip_value: Annotated[
        Rate | None, Meta(description="Limit of each element of a row's gradient, summed over the batch.")
    ] = None
    clip_norm: Annotated[Rate | None, Meta(description="Limit of that gradient's L2 norm.")] = None

    def __post_init__(self) -> None:
        check_ranges(self)
        if len(self._named) > 1:
            raise ValueError(f"name one optimizer, not {len(self._named)}: {', '.join(sorted(self._named))}")

    @property
    def chosen(self) -> UpdateRule | None:
        """The one that was named."""
        return next(iter(self._named.values()), None)

    @property
    def clipping(self) -> RowClipping:
        """How gradients are clipped."""
        return RowClipping(self.clip_value, self.clip_norm)


class Schedule(Section, frozen=True):
    """A factor applied to every learning rate, by the number of steps of all workers."""

    warmup_steps: Annotated[
        int, Meta(ge=0, le=MOST_INT, description="The factor rises from 0 to 1 in so many steps.")
    ] = 0
    decay: Annotated[
        Literal["none", "exponential", "linear", "cosine"], Meta(description="How it falls after the warm-up.")
    ] = "none"
    decay_steps: Annotated[
        PositiveInt, Meta(description="Steps for one multiplication by `decay_rate`, or to reach `floor`.")
    ] = 100_000
    decay_rate: Annotated[float, Meta(gt=0, le=1, description="For `exponential`.")] = 0.5
    floor: Annotated[float, Meta(ge=0, le=1, description="Decay never falls below this.")] = 0.0
    cooldown: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Over this last part of the job's steps it falls linearly to 0.02. Left out: 0.2; 0 with "
             "`checkpoint.warm_start`, and for a model of `entry`, which trains at the rates that Keras would use."),
    ] = None  # fmt: skip
    steps: Annotated[
        PositiveInt | None,
        Meta(description="Number of the job's steps, for `cooldown`. Left out: `train.max_steps`, or an estimate from "
             "the training files and epochs, by the length of their first records."),
    ] = None  # fmt: skip


class Optimizer(Section, frozen=True):
    """How gradients are applied."""

    wide: OptimizerChoice = OptimizerChoice(ftrl=Ftrl())
    deep: Annotated[
        OptimizerChoice | None,
        Meta(description="For all but the linear part. Left out: AdaGrad, or what `entry`'s model was compiled with."),
    ] = None
    embedding: Annotated[
        RowOptimizer | None, Meta(description="For embeddings in hash tables. Left out: as `deep`.")
    ] = None
    schedule: Schedule = Schedule()

    @property
    def deep_or_default(self) -> OptimizerChoice:
        """The optimizer of all but the linear part where the model itself brings none."""
        return self.deep or OptimizerChoice(adagrad=Adagrad())

    def of_rows(self, deep: OptimizerChoice) -> UpdateRule:
        """Of embeddings in hash tables, of a model whose other weights have `deep`."""
        return (self.embedding and self.embedding.chosen) or deep.chosen

    @property
    def row_clipping(self) -> RowClipping:
        """Of embeddings in hash tables."""
        return self.embedding.clipping if self.embedding else RowClipping()

    mode: Annotated[Literal["async"], Meta(description="Workers never wait for each other.")] = "async"
