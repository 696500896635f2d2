"""`optimizer.embedding`: how the rows of hash tables are updated, where that is not as all the rest."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from afo.job.optimizer import Adagrad, Adam, AdamW, Ftrl, Momentum, Rate, RMSprop, Sgd, Share
from afo.job.section import Section

Strength = Annotated[float, Meta(ge=0)]


class AdagradDecay(Section, frozen=True):
    """AdaGrad whose sums shrink by `decay_rate` for every `decay_steps` steps without an update; DeepRec's."""

    learning_rate: Rate = 0.05
    initial_accumulator: Rate = 0.1
    decay_rate: Share = 0.9
    decay_steps: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000


class GroupFtrl(Section, frozen=True):
    """FTRL whose `l21` sets whole rows to zero (Ni et al., 2019)."""

    learning_rate: Rate = 0.05
    initial_accumulator: Rate = 0.1
    l1: Strength = 0.0
    l2: Strength = 0.0
    l21: Strength = 0.0


_Rule = Adagrad | Adam | Ftrl | Sgd | Momentum | AdagradDecay | AdamW | GroupFtrl | RMSprop


class RowOptimizer(Section, frozen=True):
    """Of the embeddings in hash tables: one optimizer, or, with none, that of `deep`; and how gradients are clipped."""

    adagrad: Adagrad | UnsetType = UNSET
    adagrad_decay: AdagradDecay | UnsetType = UNSET
    adam: Adam | UnsetType = UNSET
    adamw: AdamW | UnsetType = UNSET
    ftrl: Ftrl | UnsetType = UNSET
    group_ftrl: GroupFtrl | UnsetType = UNSET
    momentum: Momentum | UnsetType = UNSET
    rmsprop: RMSprop | UnsetType = UNSET
    sgd: Sgd | UnsetType = UNSET
    clip_value: Annotated[
        Rate | None, Meta(description="Limit of each element of a row's gradient, summed over the batch.")
    ] = None
    clip_norm: Annotated[Rate | None, Meta(description="Limit of the length of that gradient.")] = None

    def __post_init__(self) -> None:
        if len(self._named) > 1:
            raise ValueError(f"name one optimizer, not {len(self._named)}: {', '.join(self._named)}")

    @property
    def chosen(self) -> _Rule | None:
        """The one that was named."""
        return next(iter(self._named.values()), None)

    @property
    def _named(self) -> dict[str, _Rule]:
        given = {name: getattr(self, name) for name in self.__struct_fields__ if not name.startswith("clip_")}
        return {name: value for name, value in given.items() if value is not UNSET}
