"""Optimizers as raw TensorFlow operations on variables that live on parameter servers."""

from afo.errors import SpecError
from afo.job import Adagrad, Ftrl, OptimizerChoice, Sgd
from afo.optimizers.adagrad import AdagradRule
from afo.optimizers.ftrl import FtrlRule
from afo.optimizers.rule import Rule
from afo.optimizers.sgd import SgdRule

__all__ = ["AdagradRule", "FtrlRule", "Rule", "SgdRule", "rule_of"]


def rule_of(choice: OptimizerChoice) -> Rule:
    """The update rule that a job file names."""
    chosen = choice.chosen
    if isinstance(chosen, Ftrl):
        return FtrlRule(chosen)
    if isinstance(chosen, Adagrad):
        return AdagradRule(chosen)
    if isinstance(chosen, Sgd):
        return SgdRule(chosen)
    raise SpecError("the optimizer adam is not built yet")
