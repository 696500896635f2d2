"""Metrics against their definitions, computed by brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.data.model_metrics import auc, by_label, calibration, log_loss
from afo.errors import DataError

# Few different scores, so that there are ties; both classes are there.
samples = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 8).map(lambda n: n / 8)), min_size=2, max_size=40
).filter(lambda pairs: len({label for label, _ in pairs}) == 2)


@given(samples)
def test_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, float]]) -> None:
    positives = [score for label, score in pairs if label]
    negatives = [score for label, score in pairs if not label]
    won = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    labels, scores = zip(*pairs, strict=True)
    assert auc(labels, scores) == pytest.approx(won / (len(positives) * len(negatives)), abs=1e-12)


@given(samples)
def test_log_loss_and_calibration(pairs: list[tuple[int, float]]) -> None:
    labels, scores = zip(*pairs, strict=True)
    inside = [min(max(score, 1e-7), 1 - 1e-7) for score in scores]
    loss = -sum(math.log(p if y else 1 - p) for y, p in zip(labels, inside, strict=True)) / len(pairs)
    assert log_loss(labels, scores) == pytest.approx(loss, rel=1e-9)
    assert calibration(labels, scores) == pytest.approx(sum(scores) / sum(labels))


def test_auc_of_many_samples_counts_exactly() -> None:
    labels = np.arange(2_000_001) % 2
    assert auc(labels, labels) == 1.0
    assert auc(labels, -labels) == 0.0
    assert auc(labels, np.zeros(labels.size)) == 0.5


@pytest.mark.parametrize(
    ("labels", "scores", "what"),
    [
        ([1, 1], [0.1, 0.2], "2 positive and 0 negative"),
        ([], [], "no samples"),
        ([0, 1], [0.1], "equally long"),
        ([0, 2], [0.1, 0.2], "given 2"),
        ([0, 1], [0.1, float("nan")], "score 1 is not a number"),
    ],
)
def test_what_has_no_auc(labels: list[int], scores: list[float], what: str) -> None:
    with pytest.raises(DataError, match=what):
        auc(labels, scores)


def test_calibration_needs_a_positive() -> None:
    with pytest.raises(DataError, match="none of 2 labels"):
        calibration([0, 0], [0.1, 0.2])


def test_what_the_evaluator_measures_is_what_a_job_file_may_ask_for() -> None:
    from afo.job.training import METRICS

    labels, predictions = np.array([[0.0], [1.0]], np.float32), np.array([[0.2], [0.7]], np.float32)
    assert tuple(by_label(("click",), labels, predictions)) == METRICS
