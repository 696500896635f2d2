"""Observers of an evaluation: each is told of the scores as they come, and has a result at the end."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from afo.data import model_metrics
from afo.data.schema import Schema
from afo.logs.task_log import LOG, one_line
from afo.models.parser import DTYPE
from afo.protocol.export_gate import DROPS
from afo.trainable.model_protocol import LocalModel


class Scored(NamedTuple):
    """B records as numpy arrays."""

    #: [B, labels] each.
    labels: Any
    probabilities: Any
    #: int64 [features of the schema]: how many of the records hold each.
    held: Any


class Observer(Protocol):
    """What an evaluation measures."""

    def observe(self, scored: Scored) -> None:
        """Take a batch into account; batches come in the order of the records."""


class Metrics:
    """Exact metrics and those of the model's own. They need all scores at once: 8 bytes for each label of a record."""

    def __init__(self, labels: tuple[str, ...], model: LocalModel) -> None:
        self._names, self._model = labels, model
        blank = np.empty((0, len(labels)), np.float32)
        self._labels, self._probabilities = [blank], [blank]

    def observe(self, scored: Scored) -> None:
        """Keep labels and probabilities."""
        self._labels.append(scored.labels)
        self._probabilities.append(scored.probabilities)

    def result(self) -> dict[str, float]:
        """By name. Raises DataError where a metric is undefined."""
        labels, probabilities = np.concatenate(self._labels), np.concatenate(self._probabilities)
        found = model_metrics.by_label(self._names, labels, probabilities)
        return found | _name_own_metrics(self._model.metrics(labels, probabilities), {*found, *DROPS})


class Coverage:
    """The share of the records that hold each feature."""

    def __init__(self, schema: Schema) -> None:
        self._names = [feature.name for feature in schema.features]
        self._held = np.zeros(len(self._names), np.int64)
        self._samples = 0

    def observe(self, scored: Scored) -> None:
        """Add up how many hold each."""
        self._held = self._held + scored.held
        self._samples += len(scored.labels)

    def result(self) -> dict[str, float]:
        """By name of the feature; none where there was no record."""
        if not self._samples:
            return {}
        return dict(zip(self._names, (self._held / self._samples).tolist(), strict=True))


class Counter:
    """How many records were scored, told to whoever waits."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._samples = 0

    def observe(self, scored: Scored) -> None:
        """Tell the records so far."""
        self._samples += len(scored.labels)
        self._tell(self._samples)


def count_held(schema: Schema, features: dict[str, Any]) -> Any:
    """int64 [features of the schema]: of so many of B records some value differs from the feature's default.

    `features` [B, values] each. A record that was written without a feature holds its default afterwards.
    """
    counts = []
    for feature in schema.features:
        values = features[feature.name]
        differs = values != tf.constant(feature.stand_ins(), DTYPE[feature.kind])
        if feature.missing_indicator:
            differs &= ~tf.math.is_nan(values)
        counts.append(tf.math.count_nonzero(tf.reduce_any(differs, axis=1)))
    return tf.stack(counts) if counts else tf.zeros([0], tf.int64)


def _name_own_metrics(found: dict[str, float], taken: set[str]) -> dict[str, float]:
    """Metrics of a user's own; they take no name that says something else elsewhere, and files hold no NaN."""
    named = {f"keras_{name}" if name in taken else name: value for name, value in found.items()}
    for name in [name for name, value in named.items() if not math.isfinite(value)]:
        LOG.warning("metric %s is %s, and left out", one_line(name), named.pop(name))
    return named
