"""The update rule of a hash table's rows that a job file names."""

import msgspec

from afo.embedding import optimizers
from afo.embedding.optimizers import RowOptimizer
from afo.job import Adagrad, Adam, Ftrl, OptimizerChoice, Sgd

_RULES: dict[type, type[RowOptimizer]] = {
    Adagrad: optimizers.Adagrad,
    Adam: optimizers.Adam,
    Ftrl: optimizers.Ftrl,
    Sgd: optimizers.Sgd,
}


def row_optimizer_of(choice: OptimizerChoice) -> RowOptimizer:
    """The engine's rule of the same name and with the same numbers. Raises SpecError for a number out of its range."""
    options = choice.chosen
    return _RULES[type(options)](**msgspec.structs.asdict(options))
