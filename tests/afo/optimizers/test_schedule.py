"""The factor of the learning rate at every step."""

from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from afo.job import Schedule  # noqa: E402
from afo.optimizers import rate_at  # noqa: E402

pytestmark = pytest.mark.tensorflow


def rates(schedule: Schedule, *steps: int) -> list[float]:
    """In a traced function, as the training step uses it."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
    def rate(step: Any) -> Any:
        return tf.convert_to_tensor(rate_at(schedule, step), tf.float32)

    return [float(rate(tf.constant(step, tf.int64))) for step in steps]


def test_without_a_schedule_the_rate_is_a_plain_number() -> None:
    assert rate_at(Schedule(), tf.constant(7, tf.int64)) == 1.0
    assert isinstance(rate_at(Schedule(), tf.constant(7, tf.int64)), float)


def test_the_warm_up_rises_to_the_full_rate_and_stays() -> None:
    assert rates(Schedule(warmup_steps=4), 0, 1, 3, 4, 10**9) == pytest.approx([0.25, 0.5, 1, 1, 1])


def test_exponential_multiplies_by_its_rate_every_decay_steps_down_to_the_floor() -> None:
    schedule = Schedule(decay="exponential", decay_steps=10, decay_rate=0.25, floor=0.1)
    assert rates(schedule, 0, 5, 10, 20, 1000) == pytest.approx([1, 0.5, 0.25, 0.1, 0.1])


def test_linear_ends_at_the_floor() -> None:
    assert rates(Schedule(decay="linear", decay_steps=10, floor=0.2), 0, 5, 10, 99) == pytest.approx([1, 0.6, 0.2, 0.2])


def test_cosine_is_half_way_at_half_time() -> None:
    schedule = Schedule(decay="cosine", decay_steps=8, floor=0.2)
    assert rates(schedule, 0, 2, 4, 8, 99) == pytest.approx([1, 0.2 + 0.8 * 0.853553, 0.6, 0.2, 0.2], rel=1e-5)


def test_a_cooldown_falls_over_the_last_part_of_the_steps() -> None:
    schedule = Schedule(cooldown=0.25, steps=16)
    assert rates(schedule, 0, 12, 14, 15, 16, 99) == pytest.approx([1, 1, 0.51, 0.265, 0.02, 0.02])
    assert rates(Schedule(cooldown=1.0, steps=4), 0, 2) == pytest.approx([1, 0.51])
    warm = Schedule(warmup_steps=4, cooldown=0.5, steps=16)
    assert rates(warm, 0, 3, 8, 12, 16) == pytest.approx([0.25, 1, 1, 0.51, 0.02])


def test_a_cooldown_needs_the_number_of_steps() -> None:
    assert rate_at(Schedule(cooldown=0.25), tf.constant(7, tf.int64)) == 1.0
    assert rate_at(Schedule(cooldown=0.0, steps=9), tf.constant(7, tf.int64)) == 1.0


def test_the_decay_begins_after_the_warm_up() -> None:
    schedule = Schedule(warmup_steps=4, decay="linear", decay_steps=10)
    assert rates(schedule, 0, 3, 4, 9, 14) == pytest.approx([0.25, 1, 1, 0.5, 0], abs=1e-6)
