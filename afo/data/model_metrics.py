"""Exact metrics of predicted probabilities against 0/1 labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afo.errors import DataError

#: Probabilities are kept this far from 0 and 1 in the log loss, so that one confident error does not make it infinite.
LOG_LOSS_CLIP = 1e-7


def by_label(names: Sequence[str], labels: NDArray[np.float32], probabilities: NDArray[np.float32]) -> dict[str, float]:
    """All metrics of [n, labels] predictions: `auc`, `log_loss`, `calibration`, and `samples`, which is n.

    With several labels these are means over the labels, and `auc/<label>` and so on are each label's own.
    Raises DataError, naming the label.
    """
    of_label = {name: _of_label(name, labels[:, place], probabilities[:, place]) for place, name in enumerate(names)}
    found = {metric: float(np.mean([values[metric] for values in of_label.values()])) for metric in _METRICS}
    if len(names) > 1:
        found |= {f"{metric}/{name}": value for name, values in of_label.items() for metric, value in values.items()}
    return {**found, "samples": float(len(labels))}


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a positive outranks a negative, a tie counting one half.

    `labels` [n] of 0 and 1, `scores` [n] of any real scale. From mean ranks (Mann and Whitney, 1947), so exact.
    Raises DataError when there is no positive or no negative, or a score is not a number.
    """
    label, score = _check_arrays(labels, scores)
    positives = int(label.sum())
    negatives = label.size - positives
    if positives == 0 or negatives == 0:
        raise DataError(f"AUC is undefined: {positives} positive and {negatives} negative labels; both are needed")
    order = np.argsort(score, kind="stable")
    _, start, counts = np.unique(score[order], return_index=True, return_counts=True)
    mean_rank = start + (counts + 1) / 2
    hits = np.add.reduceat(label[order].astype(np.float64), start)
    return float((mean_rank @ hits - positives * (positives + 1) / 2) / (positives * negatives))


def log_loss(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean of -log(probability given to what happened), in nats. Raises DataError when empty or not a number."""
    label, probability = _check_arrays(labels, probabilities)
    clipped = np.clip(probability, LOG_LOSS_CLIP, 1 - LOG_LOSS_CLIP)
    return float(-np.where(label, np.log(clipped), np.log1p(-clipped)).mean())


def calibration(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Predicted clicks by real clicks: 1 is right, above 1 promises too much. Raises DataError without a positive."""
    label, probability = _check_arrays(labels, probabilities)
    positives = int(label.sum())
    if positives == 0:
        raise DataError(f"calibration is undefined: none of {label.size} labels is positive")
    return float(probability.sum() / positives)


_METRICS = {"auc": auc, "log_loss": log_loss, "calibration": calibration}


def _of_label(name: str, label: ArrayLike, probability: ArrayLike) -> dict[str, float]:
    try:
        return {metric: function(label, probability) for metric, function in _METRICS.items()}
    except DataError as error:
        raise DataError(f"label `{name}`: {error}") from error


def _check_arrays(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    label, score = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if label.ndim != 1 or label.shape != score.shape:
        raise DataError(
            f"labels of shape {label.shape} and scores of shape {score.shape}: both must be [n], equally long"
        )
    if label.size == 0:
        raise DataError("no samples: a metric needs at least one")
    if not np.isin(label, (0, 1)).all():
        raise DataError(f"labels must be 0 or 1, given {label[~np.isin(label, (0, 1))][0]}")
    if np.isnan(score).any():
        raise DataError(f"score {int(np.isnan(score).argmax())} is not a number")
    return label.astype(bool), score
