"""Where in its life a job is, by its event log: how to wait for a phase, and the proof that a fault fell into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afo.events import event_log
from afo.events import types as ev

Records = Sequence[event_log.Record]


@dataclass(frozen=True)
class Phase:
    """`is_now` is asked of all events so far, or of those before the harm; `shows` of those after it."""

    name: str
    is_now: Callable[[Records, int], bool]
    shows: Callable[[Records], bool]

    def was_hit(self, records: Records, at: float, splits: int) -> bool:
        """Whether a harm done `at` fell into it, by the order of the log. `splits`: files times epochs."""
        before = [record for record in records if record.time < at]
        return self.is_now(before, splits) and self.shows(records[len(before) :])


def _kinds(records: Records) -> list[type]:
    return [type(record.event) for record in records]


def _last(records: Records, *kinds: type) -> type | None:
    return next((kind for kind in reversed(_kinds(records)) if kind in kinds), None)


def _starts(records: Records, splits: int) -> bool:
    """Containers run, and the model is not there yet."""
    kinds = _kinds(records)
    return ev.GenerationStarted in kinds and ev.VariablesReady not in kinds


def _trains(records: Records, splits: int) -> bool:
    """A file was read to its end since the model was ready, and more are left."""
    ready = max((i for i, kind in enumerate(_kinds(records)) if kind is ev.VariablesReady), default=None)
    return ready is not None and ev.SplitDone in _kinds(records[ready:]) and not _ends(records, splits)


def _saves(records: Records, splits: int) -> bool:
    """The chief began to save, and did not say that it was done."""
    return _last(records, ev.CheckpointBegun, ev.CheckpointWritten, ev.GenerationEnded) is ev.CheckpointBegun


def _ends(records: Records, splits: int) -> bool:
    """Every file of every epoch was given out, and there is no verdict."""
    kinds = _kinds(records)
    done = {(r.event.split, r.event.epoch) for r in records if isinstance(r.event, ev.SplitLeased | ev.SplitDone)}
    return len(done) == splits and ev.JobEnding not in kinds


def _goes_on(records: Records) -> bool:
    return any(kind in _kinds(records) for kind in (ev.SplitDone, ev.JobEnding))


def _finishes(records: Records) -> bool:
    return ev.JobEnding in _kinds(records)


PHASES = (
    Phase("start", _starts, _goes_on),
    Phase("training", _trains, _goes_on),
    Phase("checkpoint", _saves, _goes_on),
    Phase("shutdown", _ends, _finishes),
)
