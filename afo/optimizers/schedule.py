"""The learning rate over time, as a factor of every rule's own rate."""

import math
from typing import Any

import tensorflow as tf

from afo.job import Schedule

#: Of the rate that is left at the end of a cooldown.
COOLED = 0.02


def rate_at(schedule: Schedule, step: Any, first_step: Any = 0) -> Any:
    """The factor for the update that follows `step` updates of all workers (int64 scalar) → float32 scalar.

    The first `first_step` of them came with the model that the job began with. A schedule that changes nothing gives
    the number 1.0, so that a step without one has no operation more. Works in a traced function. The factor is a
    function of these two alone: after a restart it goes on where it was.
    """
    rate: Any = 1.0
    if schedule.decay != "none":
        rate = tf.maximum(_decay_factor(schedule, tf.maximum(step - schedule.warmup_steps, 0)), schedule.floor)
    if schedule.warmup_steps:
        # The first update has a rate above zero, the last of the warm-up the full one.
        rate = rate * tf.minimum(tf.cast(step + 1, tf.float32) / schedule.warmup_steps, 1.0)
    if schedule.cooldown and schedule.steps:
        rate = rate * _cooldown_factor(schedule.steps, schedule.cooldown, step - first_step)
    return rate


def _cooldown_factor(steps: int, share: float, step: Any) -> Any:
    """Falls from 1 to `COOLED` over the last `share` of a job's steps, and stays there."""
    left = tf.clip_by_value((steps - tf.cast(step, tf.float32)) / (steps * share), 0.0, 1.0)
    return COOLED + (1 - COOLED) * left


def _decay_factor(schedule: Schedule, step: Any) -> Any:
    """What is left after `step` updates since the warm-up, without regard to the floor of an exponential."""
    passed = tf.cast(step, tf.float32) / schedule.decay_steps
    if schedule.decay == "exponential":
        return schedule.decay_rate**passed
    left = 1 - tf.minimum(passed, 1.0)
    if schedule.decay == "cosine":
        left = (1 - tf.cos(math.pi * left)) / 2
    return schedule.floor + (1 - schedule.floor) * left
