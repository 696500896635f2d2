"""The optimizer that a Keras model was compiled with, as one of ours."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from afo.errors import SpecError, Unsupported
from afo.job import Adagrad, Adam, AdamW, Ftrl, Momentum, OptimizerChoice, RMSprop, Sgd
from afo.optimizers.clipping import Clipping

#: Options of Keras' optimizers that change nothing at these values, and that ours have no word for.
_NEUTRAL = {
    "amsgrad": (False,), "centered": (False,), "use_ema": (False,), "loss_scale_factor": (None,),
    "gradient_accumulation_steps": (None,), "learning_rate_power": (-0.5,),
    "l2_shrinkage_regularization_strength": (0.0,),
}  # fmt: skip
#: By the exact class: AdamW, for one, is an Adam.
_OFFERED = (
    keras.optimizers.SGD, keras.optimizers.Adagrad, keras.optimizers.Adam, keras.optimizers.AdamW,
    keras.optimizers.RMSprop, keras.optimizers.Ftrl,
)  # fmt: skip
_INSTEAD = "; name one in `optimizer.deep` of the job file, which goes before the model's"


class Compiled(NamedTuple):
    """What a model was compiled with."""

    choice: OptimizerChoice
    clipping: Clipping = Clipping()
    #: `keras.optimizers.schedules.LearningRateSchedule` whose value multiplies the choice's rate of 1, or None.
    schedule: Any = None
    #: Rates of the epochs, which do so in its place.
    by_epoch: tuple[float, ...] = ()

    @property
    def has_fixed_rate(self) -> bool:
        """Whether the choice says it all."""
        return self.schedule is None and not self.by_epoch

    def rate(self, step: Any, epochs: Any) -> Any:
        """float32 scalar, after `step` updates and for a batch of files in these epochs, of which the latest counts."""
        if self.schedule is not None:
            return tf.cast(self.schedule(step), tf.float32)
        latest = tf.clip_by_value(tf.reduce_max(epochs), 0, len(self.by_epoch) - 1)
        return tf.gather(tf.constant(self.by_epoch, tf.float32), latest)


def compiled_of(optimizer: Any, by_epoch: Callable[[float], tuple[float, ...]] | None = None) -> Compiled:
    """`by_epoch` makes of the first rate those of the epochs.

    Raises Unsupported for an optimizer or an option that the parameter servers do not have.
    """
    if type(optimizer) not in _OFFERED:
        raise Unsupported(
            f"the model is compiled with {_name(optimizer)}; offered are SGD, Adagrad, Adam, AdamW, RMSprop and"
            f" Ftrl{_INSTEAD}"
        )
    config = optimizer.get_config()
    for option, neutral in _NEUTRAL.items():
        if option in config and config[option] not in neutral:
            raise Unsupported(f"{_name(optimizer)} has {option}={config[option]!r}, which is not offered{_INSTEAD}")
    if getattr(optimizer, "_exclude_from_weight_decay_pattern", None):
        raise Unsupported(
            f"{_name(optimizer)} leaves variables out of its weight decay, which is not offered{_INSTEAD}"
        )
    schedule = _schedule(optimizer, by_epoch)
    rates = by_epoch(float(config["learning_rate"])) if by_epoch else ()
    has_fixed_rate = schedule is None and not rates
    try:
        choice = _choice(optimizer, float(config["learning_rate"]) if has_fixed_rate else 1.0, config)
    except SpecError as error:
        raise Unsupported(f"the model is compiled with {_name(optimizer)}: {error}") from error
    clipping = Clipping(config.get("clipvalue"), config.get("clipnorm"), config.get("global_clipnorm"))
    return Compiled(choice, clipping, schedule, rates)


def _schedule(optimizer: Any, by_epoch: Any) -> Any:
    """Its learning-rate schedule, None for a number."""
    rate = optimizer._learning_rate
    is_scheduled = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    if is_scheduled and by_epoch:
        raise Unsupported(
            f"{_name(optimizer)} has a learning-rate schedule, which callback LearningRateScheduler cannot set; leave"
            " one of them out"
        )
    if not is_scheduled and not by_epoch:
        return None
    if type(optimizer) is keras.optimizers.Ftrl:
        raise Unsupported(
            f"{_name(optimizer)} has a learning-rate schedule, which would rescale the weights learned so far; write"
            " a number, and `optimizer.schedule` in the job file, which weighs the gradients"
        )
    return rate if is_scheduled else None


def _choice(optimizer: Any, rate: float, config: dict[str, Any]) -> OptimizerChoice:
    kind = type(optimizer)
    decay = config.get("weight_decay") or 0.0
    if kind in (keras.optimizers.Adam, keras.optimizers.AdamW):
        numbers = {name: config[name] for name in ("beta_1", "beta_2", "epsilon")} | {"learning_rate": rate}
        if decay:
            return OptimizerChoice(adamw=AdamW(weight_decay=decay, **numbers))
        return OptimizerChoice(adam=Adam(**numbers))
    if decay:
        raise Unsupported(f"{_name(optimizer)} has weight_decay={decay!r}, which AdamW alone has here{_INSTEAD}")
    if kind is keras.optimizers.SGD:
        return _sgd(rate, config)
    if kind is keras.optimizers.Adagrad:
        # sqrt(a + epsilon + sum of g²): the same as a first sum that is larger by epsilon.
        first = config["initial_accumulator_value"] + config["epsilon"]
        return OptimizerChoice(adagrad=Adagrad(learning_rate=rate, initial_accumulator=first))
    if kind is keras.optimizers.RMSprop:
        return _rmsprop(optimizer, rate, config)
    return _ftrl(rate, config)


def _sgd(rate: float, config: dict[str, Any]) -> OptimizerChoice:
    if not config["momentum"]:
        return OptimizerChoice(sgd=Sgd(learning_rate=rate))
    momentum = Momentum(learning_rate=rate, momentum=config["momentum"], nesterov=config["nesterov"])
    return OptimizerChoice(momentum=momentum)


def _rmsprop(optimizer: Any, rate: float, config: dict[str, Any]) -> OptimizerChoice:
    if config["momentum"]:
        raise Unsupported(f"{_name(optimizer)} has momentum={config['momentum']!r}, which is not offered{_INSTEAD}")
    return OptimizerChoice(rmsprop=RMSprop(learning_rate=rate, rho=config["rho"], epsilon=config["epsilon"]))


def _ftrl(rate: float, config: dict[str, Any]) -> OptimizerChoice:
    # beta stands beside the root as 2 * l2 does: l2 + beta / (2 * rate).
    l2 = config["l2_regularization_strength"] + config["beta"] / (2 * rate)
    numbers = {"l1": config["l1_regularization_strength"], "l2": l2}
    first = config["initial_accumulator_value"]
    return OptimizerChoice(ftrl=Ftrl(learning_rate=rate, initial_accumulator=first, forgets_first=True, **numbers))


def _name(optimizer: Any) -> str:
    return f"keras.optimizers.{type(optimizer).__name__}"
