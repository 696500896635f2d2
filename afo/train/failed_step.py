"""Explanation of a batch that made a step fail."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from afo.errors import AfoError, ModelError, NotFinite
from afo.job.entry_point import split_entry
from afo.state.parameters import Parameters
from afo.state.server_connections import is_lost_server
from afo.train.nan_check import MARK, culprits
from afo.trainable.model_protocol import Model

_ASSERTED = "assertion failed: "
#: Lines that say nothing of the reason.
_AROUND = re.compile(r"\s+File |\t|Graph execution error|Detected at|<stack|\d+ root error|Additional GRPC")
_NUMBERED = re.compile(r"^\(\d+\) [A-Z_]+:\s*")


def explain_failure(
    error: tf.errors.OpError, model: Model, parameters: Parameters, batch: Any, step: int,
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
    return ModelError(f"{entry}: {place}: {_words(error.message)}{_line(error.message, entry)}") if entry else None


def _words(message: str) -> str:
    """What was wrong, out of an error of TensorFlow that tells stacks and messages of servers around it."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and not _AROUND.match(line)]
    asserted = next((line for line in lines if _ASSERTED in line), "")
    if asserted:
        # The parts of an assertion stand in brackets there.
        return asserted.partition(_ASSERTED)[2].replace("] [", " ").strip("[]")
    return _NUMBERED.sub("", lines[0]) if lines else "no message"


def _line(message: str, entry: str) -> str:
    """The innermost line of the user's file in the stack that TensorFlow kept of the operation."""
    path = str(Path(split_entry(entry)[0]).absolute())
    found = re.findall(rf'File "{re.escape(path)}", line (\d+)', message)
    return f" (line {found[-1]} of {Path(path).name})" if found else ""
