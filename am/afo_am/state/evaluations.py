"""Evaluations of the model, and what follows from them: early stop, best checkpoint, export gate. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress

from msgspec.structs import replace

from afo.events import types as ev
from afo.events.model_notes import Notes
from afo.formats.units import Interval
from afo.job import RANKING, EarlyStop, Export
from afo.protocol import export_gate
from afo_am.state.version_gate import VersionGate, Window


@dataclass
class Evaluations:
    """Part of the job's state; changes by `take` alone."""

    export: Export
    early_stop: EarlyStop | None
    every: Interval
    #: Measured last, best by `export.metric`, and the one of the final checkpoint.
    last: ev.Evaluated | None = None
    best: ev.Evaluated | None = None
    final: ev.Evaluated | None = None
    #: Best value of `train.early_stop.metric`, and evaluations since then.
    peak: float | None = None
    without_gain: int = 0
    #: Workers are to read nothing more.
    stopping: bool = False
    decided: ev.ExportDecided | None = None
    #: What a person should know of how the model came about.
    notes: Notes = field(default_factory=Notes)
    #: The windows of `last`, `best` and `final`, by manifest.
    windows: dict[str, Window] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate = VersionGate(self.export)

    def take(self, event: ev.Evaluated) -> None:
        """A checkpoint was measured. One that is measured again (by a new evaluator) does not count twice."""
        repeated = self.last is not None and self.last.manifest == event.manifest
        self.last = event
        self.notes.take(event)
        if event.final:
            self.final = event
        if self.best is None or self.best.manifest == event.manifest or self._is_better(event, self.best):
            self.best = event if self.export.metric in event.metrics else self.best
        self.gate.take(event)
        self._keep_window(event)
        if self.early_stop is not None and not repeated:
            self._count(self.early_stop, event.metrics.get(self.early_stop.metric))

    def _keep_window(self, event: ev.Evaluated) -> None:
        kept = {each.manifest for each in (self.last, self.best, self.final) if each}
        windows = {**self.windows, event.manifest: self.gate.window}
        self.windows = {manifest: window for manifest, window in windows.items() if manifest in kept}

    def note_version(self, event: ev.VersionExported | ev.VersionWithheld) -> None:
        """A checkpoint became a version, or did not."""
        self.notes.take(event)
        if isinstance(event, ev.VersionExported):
            self.gate.note_version(event)
        else:
            self.gate.note_withheld(event)

    def note(self, event: ev.VariablesReady | ev.WarmStarted | ev.StoppedEarly | ev.ExportDecided) -> None:
        """Something was decided, or became known, that a person should see."""
        self.notes.take(event)
        if isinstance(event, ev.ExportDecided):
            self.decided = event
        self.stopping = self.stopping or isinstance(event, ev.StoppedEarly)

    def _is_better(self, event: ev.Evaluated, other: ev.Evaluated) -> bool:
        metric = self.export.metric
        if metric not in event.metrics:
            return False
        gain = _gain(metric, other.metrics[metric], event.metrics[metric])
        # Of equals the final one: nothing may have been trained since the other.
        return gain > 0 or (gain == 0 and event.final)

    def _count(self, rule: EarlyStop, value: float | None) -> None:
        if value is not None and (self.peak is None or _gain(rule.metric, self.peak, value) > rule.min_delta):
            self.peak, self.without_gain = value, 0
        else:
            self.without_gain += 1

    @property
    def exhausted(self) -> bool:
        """Whether `train.early_stop` says to end the training."""
        return self.early_stop is not None and self.without_gain >= self.early_stop.patience

    def list_protected(self, checkpoints: Mapping[str, int]) -> tuple[str, ...]:
        """Manifests that must outlive newer ones; `checkpoints` are all with their steps, oldest first.

        The best, and those that were not measured yet and may turn out to be better: the evaluator passes over all
        but the newest when it is slow, so these are as many as one evaluation takes time for. Where evaluations go by
        steps it does not look at what is saved in between. So is one that may become a version.
        """
        candidate = self.gate.candidate
        next_version = (candidate[-1].manifest,) if candidate else ()
        if self.export.checkpoint != "best":
            return next_version
        waiting = list(checkpoints)
        if self.last is not None and self.last.manifest in waiting:
            waiting = waiting[waiting.index(self.last.manifest) + 1 :]
        before = self.last.step if self.last is not None else 0
        awaited = compress(waiting, self.every.passing(before, map(checkpoints.__getitem__, waiting)))
        return (*next_version, *((self.best.manifest,) if self.best else ()), *awaited)

    @property
    def metrics(self) -> dict[str, float]:
        """Of the checkpoint to be exported; before that is decided, of the one that was measured last."""
        if self.decided and self.decided.metrics:  # events of older versions have none
            return self.decided.metrics
        return self.last.metrics if self.last else {}

    @property
    def exported(self) -> str:
        """Manifest of the checkpoint to be exported; empty before the decision, and where the gate refused it."""
        return self.decided.manifest if self.decided and self.decided.allowed else ""

    @property
    def candidate(self) -> ev.Evaluated | None:
        """What is to be exported, once the final checkpoint was measured."""
        if self.final is None:
            return None
        return self.best if self.export.checkpoint == "best" and self.best is not None else self.final

    def metrics_of(self, manifest: str) -> dict[str, float]:
        """Of an exported checkpoint; none where no evaluation was awaited before."""
        known = (*self.gate.passed, *((self.decided,) if self.decided else ()))
        return next((each.metrics for each in reversed(known) if each.manifest == manifest), {})

    def decision(self, candidate: ev.Evaluated) -> ev.ExportDecided:
        """The quality gate's word on a checkpoint. It stands once that is exported: a chief that is started again then
        would have it compared with itself."""
        if self.exported == candidate.manifest and self.gate.is_exported(candidate.manifest):
            assert self.decided is not None
            return self.decided
        checks = self.gate.checks(self.windows[candidate.manifest])
        decided = ev.ExportDecided(
            manifest=candidate.manifest,
            step=candidate.step,
            allowed=not export_gate.refusals(checks),
            metrics=candidate.metrics,
            checks=checks,
        )
        metric, final = self.export.metric, self.final
        if final is None or final.manifest == candidate.manifest or metric not in final.metrics:
            return decided
        return replace(
            decided, metric=metric, value=candidate.metrics[metric], last_value=final.metrics[metric],
            last_step=final.step,
        )  # fmt: skip


def _gain(metric: str, before: float, now: float) -> float:
    return now - before if RANKING[metric.split("/")[0]] else before - now
