"""Optimizers as raw TensorFlow operations on variables that live on parameter servers."""

from afo.job import Adagrad, Adam, AdamW, Ftrl, Momentum, OptimizerChoice, RMSprop, Sgd
from afo.optimizers.adagrad import AdagradRule
from afo.optimizers.adam import AdamRule
from afo.optimizers.adamw import AdamWRule
from afo.optimizers.ftrl import FtrlRule
from afo.optimizers.momentum import MomentumRule
from afo.optimizers.rmsprop import RMSpropRule
from afo.optimizers.rule import Rule
from afo.optimizers.schedule import rate_at
from afo.optimizers.sgd import SgdRule

__all__ = [
    "AdagradRule",
    "AdamRule",
    "AdamWRule",
    "FtrlRule",
    "MomentumRule",
    "RMSpropRule",
    "Rule",
    "SgdRule",
    "rate_at",
    "rule_of",
]


def rule_of(choice: OptimizerChoice) -> Rule:
    """The update rule that a job file names."""
    match choice.chosen:
        case Ftrl() as options:
            return FtrlRule(options)
        case Adagrad() as options:
            return AdagradRule(options)
        case Sgd() as options:
            return SgdRule(options)
        case Adam() as options:
            return AdamRule(options)
        case AdamW() as options:
            return AdamWRule(options)
        case Momentum() as options:
            return MomentumRule(options)
        case RMSprop() as options:
            return RMSpropRule(options)
