"""What to tell a person whose batch made a step fail."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from afo.errors import AfoError, ModelError, NotFinite
from afo.train.cluster import is_lost_server
from afo.train.finite import MARK, culprits
from afo.train.model import Model
from afo.train.parameters import Parameters


def explained(
    error: tf.errors.InvalidArgumentError, model: Model, parameters: Parameters, batch: Any, step: int,
    files: Iterable[str], entry: str,
) -> AfoError | None:  # fmt: skip
    """`step` number `step` failed on `batch` (`Prepared`) of `files`. None if it is not the batch's or model's fault.

    `entry` is the user's model, if it is one.
    """
    if is_lost_server(error):
        return None
    place = f"step {step}, a batch of {int(tf.reduce_sum(batch.origin.counts))} samples of {', '.join(files)}"
    if MARK in error.message:
        found = culprits(model, parameters, batch)
        what = " and ".join(found[:8]) or "the loss or a gradient, and no more after the updates of other workers"
        return NotFinite(f"{place}: not finite: {what}; the batch was not applied")
    return ModelError(f"{entry}: {place}: {_words(error.message)}") if entry else None


def _words(message: str) -> str:
    """The first line of an error of TensorFlow; an assertion's parts stand in brackets there."""
    first = next((line for line in message.splitlines() if line.strip()), "no message").strip()
    return first.removeprefix("assertion failed: ").replace("] [", " ").strip("[]")
