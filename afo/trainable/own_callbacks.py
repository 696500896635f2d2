"""`keras.callbacks` beside a user's model: each is what a job does, or is refused by its name."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from msgspec.structs import asdict

from afo.errors import ModelError, SpecError, Unsupported
from afo.job import RANKING, EarlyStop, Job
from afo.models.entry import callbacks_of, user_code

#: They show what Keras does, or are what a job always does: a step that is not finite ends it.
_NOTHING_TO_DO = (keras.callbacks.TerminateOnNaN, keras.callbacks.History, keras.callbacks.ProgbarLogger)
_SAVED = "the job saves and restores by itself: see `checkpoint` and `export.checkpoint` of the job file"
_SHOWN = "losses and metrics are in the job's events (`afo events --json`) and summaries (`afo tb`)"
#: By their names, for not every version of Keras has each of them.
_INSTEAD = {
    "ModelCheckpoint": _SAVED,
    "BackupAndRestore": _SAVED,
    "OrbaxCheckpoint": _SAVED,
    "CSVLogger": _SHOWN,
    "TensorBoard": _SHOWN,
    "RemoteMonitor": _SHOWN,
    "ReduceLROnPlateau": "evaluations are made beside the training and change no learning rate; use"
    " LearningRateScheduler, a schedule in `compile`, or `optimizer.schedule` of the job file",
    "SwapEMAWeights": "no averages of weights are kept; use a falling rate: `optimizer.schedule`",
}
_NO_HOOKS = (
    "no process sees all steps and evaluations of a job, so its hooks are not called; what is of a batch belongs into a"
    " layer or `compute_loss`, what is of a job's end into `on_end` of the job file"
)
#: Most epochs whose rates are computed.
MOST_EPOCHS = 100_000


class OwnCallbacks:
    """What `callbacks` beside the model's function says. Raises what `callbacks_of` raises, Unsupported for a callback
    that has no place in a job, SpecError for one that the job file must say as well."""

    def __init__(self, job: Job, losses: Sequence[Any]) -> None:
        """`losses`: what the model was compiled with, or nothing."""
        self._entry = job.model.entry
        self._schedulers = []
        for callback in callbacks_of(job.model):
            kind = type(callback)
            if not isinstance(callback, keras.callbacks.Callback):
                raise ModelError(f"{self._entry}: `callbacks` gives {kind.__module__}.{kind.__name__}, no callback")
            if kind is keras.callbacks.LearningRateScheduler:
                self._schedulers.append(callback)
            elif kind is keras.callbacks.EarlyStopping:
                _require_early_stop(callback, job, losses)
            elif kind not in _NOTHING_TO_DO:
                raise Unsupported(f"{self._entry}: callback {kind.__name__}: {_alternative(kind)}")

    @property
    def schedule_rates(self) -> bool:
        """Whether they give each epoch its learning rate."""
        return bool(self._schedulers)

    def rates(self, first: float, epochs: int) -> tuple[float, ...]:
        """Of each epoch, as Keras would set them; `first` is what the model was compiled with.

        Raises ModelError for one that is no rate, SpecError for too many epochs.
        """
        if epochs > MOST_EPOCHS:
            raise SpecError(f"$.data.epochs: {epochs:,}; with a LearningRateScheduler at most {MOST_EPOCHS:,}")
        optimizer = SimpleNamespace(learning_rate=np.float32(first))
        found = []
        for scheduler in self._schedulers:
            scheduler.set_model(SimpleNamespace(optimizer=optimizer))
        for epoch in range(epochs):
            for scheduler in self._schedulers:
                with user_code(self._entry):
                    scheduler.on_epoch_begin(epoch)
                optimizer.learning_rate = np.float32(optimizer.learning_rate)
            rate = float(optimizer.learning_rate)
            if not (math.isfinite(rate) and rate >= 0):
                raise ModelError(
                    f"{self._entry}: LearningRateScheduler gives the rate {rate} for epoch {epoch}; it must be a"
                    " number of at least 0"
                )
            found.append(rate)
        return tuple(found)


def _alternative(kind: type) -> str:
    """What to do without it; one of the user's own may have the name of one of Keras'."""
    is_keras = kind is getattr(keras.callbacks, kind.__name__, None)
    return _INSTEAD.get(kind.__name__, _NO_HOOKS) if is_keras else _NO_HOOKS


def _require_early_stop(callback: Any, job: Job, losses: Sequence[Any]) -> None:
    """Raises Unsupported where the evaluations cannot do what it says, SpecError where the job file does not say it."""
    metric = _metric(callback, job, losses)
    wanted = EarlyStop(metric=metric, patience=max(1, callback.patience), min_delta=float(callback.min_delta))
    if job.train.early_stop != wanted:
        given = "nothing" if job.train.early_stop is None else _flow(job.train.early_stop)
        raise SpecError(
            f"$.train.early_stop: says {given}, and EarlyStopping of {job.model.entry} {_flow(wanted)}; it is the job"
            f" file that ends a training: write `train: {{early_stop: {_flow(wanted)}}}`"
        )
    if callback.restore_best_weights and (job.exported_checkpoint, job.export.metric) != ("best", metric):
        raise SpecError(
            f"$.export: exports the {job.exported_checkpoint} checkpoint, by {job.export.metric}, and EarlyStopping of"
            f" {job.model.entry} has restore_best_weights: write `export: {{checkpoint: best, metric: {metric}}}`"
        )


def _metric(callback: Any, job: Job, losses: Sequence[Any]) -> str:
    """What it monitors, as evaluations call it."""
    labels = job.data.labels
    known = {"val_auc": "auc"} if len(labels) == 1 else {f"val_{label}_auc": f"auc/{label}" for label in labels}
    if len(labels) == 1 and all(map(_is_log_loss, losses)):
        known["val_loss"] = "log_loss"
    where = f"{job.model.entry}: callback EarlyStopping"
    if callback.monitor not in known:
        raise Unsupported(
            f"{where} monitors `{callback.monitor}`, by which no evaluation ends a job; here it can monitor"
            f" {', '.join(known)} (val_loss where the loss is plain binary cross-entropy of one label)"
        )
    metric = known[callback.monitor]
    mode = "max" if RANKING[metric.split("/")[0]] else "min"
    unfit = {"mode": callback.mode not in ("auto", mode), "baseline": callback.baseline is not None}
    unfit["start_from_epoch"] = callback.start_from_epoch > 0
    for option, is_unfit in unfit.items():
        if is_unfit:
            raise Unsupported(f"{where} has {option}={getattr(callback, option)!r}, which is not offered; leave it out")
    return metric


def _is_log_loss(loss: Any) -> bool:
    if isinstance(loss, keras.losses.BinaryCrossentropy):
        return type(loss) is keras.losses.BinaryCrossentropy and not loss.get_config().get("label_smoothing")
    return loss in ("binary_crossentropy", "bce", keras.losses.binary_crossentropy)


def _flow(rule: EarlyStop) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in asdict(rule).items()) + "}"
