"""The optimizer that a Keras model was compiled with, as one of ours."""

from typing import Any

import keras

from afo.errors import Unsupported
from afo.job import Adagrad, Adam, Ftrl, OptimizerChoice, Sgd

#: Options of Keras' optimizers that change nothing at these values, and that ours have no word for.
_NEUTRAL = {
    "momentum": (0.0,), "nesterov": (False,), "amsgrad": (False,), "weight_decay": (None, 0.0), "clipnorm": (None,),
    "clipvalue": (None,), "global_clipnorm": (None,), "use_ema": (False,), "loss_scale_factor": (None,),
    "gradient_accumulation_steps": (None,), "learning_rate_power": (-0.5,), "beta": (0.0,),
    "l2_shrinkage_regularization_strength": (0.0,),
}  # fmt: skip
_INSTEAD = "; name one in `optimizer.deep` of the job file, which goes before the model's"


def compiled_choice(optimizer: Any) -> OptimizerChoice:
    """Raises Unsupported for an optimizer, a schedule or an option that the parameter servers do not have."""
    config = optimizer.get_config()
    rate = config["learning_rate"]
    if isinstance(rate, dict):
        raise Unsupported(f"{_name(optimizer)} has a learning-rate schedule; write `optimizer.schedule` and a number")
    for option, neutral in _NEUTRAL.items():
        if option in config and config[option] not in neutral:
            raise Unsupported(f"{_name(optimizer)} has {option}={config[option]!r}, which is not offered{_INSTEAD}")
    return _choice(optimizer, float(rate), config)


def _choice(optimizer: Any, rate: float, config: dict[str, Any]) -> OptimizerChoice:
    # By the exact class: AdamW, for one, is an Adam.
    kind = type(optimizer)
    if kind is keras.optimizers.SGD:
        return OptimizerChoice(sgd=Sgd(learning_rate=rate))
    if kind is keras.optimizers.Adagrad:
        return OptimizerChoice(
            adagrad=Adagrad(learning_rate=rate, initial_accumulator=config["initial_accumulator_value"])
        )
    if kind is keras.optimizers.Adam:
        chosen = {name: config[name] for name in ("beta_1", "beta_2", "epsilon")}
        return OptimizerChoice(adam=Adam(learning_rate=rate, **chosen))
    if kind is keras.optimizers.Ftrl:
        l1, l2 = config["l1_regularization_strength"], config["l2_regularization_strength"]
        first = config["initial_accumulator_value"]
        return OptimizerChoice(ftrl=Ftrl(learning_rate=rate, l1=l1, l2=l2, initial_accumulator=first))
    raise Unsupported(
        f"the model is compiled with {_name(optimizer)}; offered are SGD, Adagrad, Adam and Ftrl{_INSTEAD}"
    )


def _name(optimizer: Any) -> str:
    return f"keras.optimizers.{type(optimizer).__name__}"
