"""The update rule of a hash table's rows that a job file names."""

import msgspec

from afo import job
from afo.embedding import optimizers
from afo.embedding.optimizers import RowOptimizer

_RULES: dict[type, type[RowOptimizer]] = {
    job.Adagrad: optimizers.Adagrad,
    job.AdagradDecay: optimizers.AdagradDecay,
    job.Adam: optimizers.Adam,
    job.AdamW: optimizers.AdamW,
    job.Ftrl: optimizers.Ftrl,
    job.GroupFtrl: optimizers.GroupFtrl,
    job.Momentum: optimizers.Momentum,
    job.RMSprop: optimizers.RMSprop,
    job.Sgd: optimizers.Sgd,
}


def row_optimizer_of(choice: job.OptimizerChoice, own: job.RowOptimizer | None = None) -> RowOptimizer:
    """The engine's rule of the same name and with the same numbers: that of `own`, if it names one, or of `choice`.

    Raises SpecError for a number out of its range.
    """
    options = (own and own.chosen) or choice.chosen
    numbers = msgspec.structs.asdict(options)
    if own is not None:
        numbers |= {"clip_value": own.clip_value, "clip_norm": own.clip_norm}
    return _RULES[type(options)](**numbers)
