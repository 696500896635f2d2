"""Optimizers as raw TensorFlow operations on variables that live on parameter servers."""

from collections.abc import Callable

from afo.job import Adagrad, Adam, AdamW, Ftrl, Momentum, OptimizerChoice, RMSprop, Sgd, UpdateRule
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


#: Of dense weights and of dense tables.
_RULES: dict[type[UpdateRule], Callable[..., Rule]] = {
    Adagrad: AdagradRule, Adam: AdamRule, AdamW: AdamWRule, Ftrl: FtrlRule, Momentum: MomentumRule,
    RMSprop: RMSpropRule, Sgd: SgdRule,
}  # fmt: skip


def rule_of(choice: OptimizerChoice) -> Rule:
    """The update rule that a job file names."""
    options = choice.chosen
    return _RULES[type(options)](options)
