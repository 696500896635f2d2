"""The teacher does what its formula says."""

import numpy as np
import pytest

from afo.data.model_metrics import auc, calibration
from afo.data.synthetic.teacher import Categorical, Draw, Teacher, TeacherSpec, sigmoid

SPEC = TeacherSpec()
COUNT = 200_000


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return Teacher(SPEC)


@pytest.fixture(scope="module")
def draw(teacher: Teacher) -> Draw:
    return teacher.draw(COUNT, np.random.default_rng(7))


def test_the_seed_determines_everything(draw: Draw) -> None:
    again = Teacher(SPEC).draw(COUNT, np.random.default_rng(7))
    assert (again.label == draw.label).all()
    assert (again.logit == draw.logit).all()
    other = Teacher(TeacherSpec(seed=2)).draw(COUNT, np.random.default_rng(7))
    assert np.corrcoef(other.logit, draw.logit)[0, 1] < 0.1


def test_ids_follow_the_power_law(draw: Draw) -> None:
    for feature in SPEC.categorical:
        weight = np.arange(1, feature.cardinality + 1.0) ** -feature.exponent
        expected = (weight / weight.sum())[:5]
        counts = np.sort(np.bincount(draw.ids[feature.name], minlength=feature.cardinality))[::-1]
        assert len(counts) == feature.cardinality
        sigma = np.sqrt(expected * COUNT)
        assert (np.abs(counts[:5] - expected * COUNT) < 5 * sigma).all(), feature.name


def test_labels_have_the_teachers_probabilities(draw: Draw) -> None:
    probability = sigmoid(draw.logit)
    assert 0.80 < auc(draw.label, probability) < 0.86
    for low in np.arange(0, 1, 0.1):
        inside = (probability >= low) & (probability < low + 0.1)
        sigma = np.sqrt((probability * (1 - probability))[inside].sum())
        assert abs(draw.label[inside].sum() - probability[inside].sum()) < 5 * sigma
    assert calibration(draw.label, probability) == pytest.approx(1, abs=0.02)


def parts(**stds: float) -> TeacherSpec:
    off = {"wide_std": 0.0, "cross_std": 0.0, "deep_std": 0.0, "bias": 0.0}
    return TeacherSpec(**(off | stds))


@pytest.mark.parametrize("part", ["wide_std", "cross_std", "deep_std"])
def test_each_part_has_the_spread_that_is_asked_for(part: str) -> None:
    logit = Teacher(parts(**{part: 0.9})).draw(COUNT, np.random.default_rng(1)).logit
    assert logit.std() == pytest.approx(0.9, rel=0.05)


def test_crosses_are_out_of_reach_of_a_linear_model() -> None:
    draw = Teacher(parts(cross_std=1.0)).draw(COUNT, np.random.default_rng(1))
    for feature in ("device", "position", "hour"):
        ids = draw.ids[feature]
        mean = np.bincount(ids, draw.logit) / np.maximum(np.bincount(ids), 1)
        # What the mean of each id explains of the variance (which is 1): about ids / samples by chance.
        assert (mean[ids] ** 2).mean() < 0.002, feature


def test_the_logit_depends_on_dense_values_only_through_the_deep_part() -> None:
    spec = TeacherSpec(categorical=(Categorical("a", 10, 1.0),), crosses=(), wide_std=0.0, bias=0.5)
    logit = Teacher(spec).logit({"a": np.zeros(2, np.int64)}, np.zeros((2, 5), np.float32))
    assert logit.tolist() == [0.5, 0.5]  # tanh(0) * tanh(0)


def test_sigmoid_of_large_values() -> None:
    assert sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]
