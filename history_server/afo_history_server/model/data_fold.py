"""Passes over training files that are part of the model, folded record by record. Pure."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from afo.events import types as ev
from afo.events.model_notes import PassComparison
from afo.events.split_list import SplitList, names_of
from afo.job_dir.lineage import NO_EPOCH
from afo_history_server.model.job_history import DataProgress, FileProgress
from afo_history_server.model.text import truncate

#: Manifests whose data positions are remembered, and positions of all of them: a job goes back to one of the newest.
_KEPT_MANIFESTS, KEPT_POSITIONS = 16, 300_000
#: Passes that are told of by file, and undone; those beyond are only added up. Characters of what is said of one.
KEPT_PASSES, _MOST_WORDS = 200_000, 500
#: Splits that are named, and characters of their names together; those beyond are only counted.
KEPT_NAMES, KEPT_CHARACTERS = 200_000, 16 << 20

Positions = tuple[tuple[int, int, int, int], ...]


class DataFold:
    """Takes a job's events in their order."""

    def __init__(self) -> None:
        self._epochs = 0
        self._splits = SplitList()
        #: What the first splits are called, by their number.
        self._names: list[str] = []
        self._characters = 0
        #: Split → its passes that count, by epoch.
        self._done: dict[int, dict[int, FileProgress]] = {}
        self._manifests: deque[tuple[str, Positions]] = deque(maxlen=_KEPT_MANIFESTS)
        #: Of all passes that count.
        self._passes = self._records = self._bad = 0
        #: Of those in `_done`.
        self._kept = 0
        self._undone = 0
        self._comparison = PassComparison()

    def take(self, event: ev.AnyEvent, time: float) -> None:
        """The next event; most are of no interest here."""
        match event:
            case ev.JobStarted():
                self._epochs = event.epochs
                self._add_splits(event)
            case ev.SplitsAdded():
                self._add_splits(event)
            case ev.CheckpointWritten():
                self._manifests.append((event.manifest, event.positions))
                while sum(len(positions) for _, positions in self._manifests) > KEPT_POSITIONS:
                    self._manifests.popleft()
            case ev.SplitDone():
                self._comparison.take(event)
                self._add(
                    FileProgress(
                        split=event.split, epoch=event.epoch, count=event.count, bad=event.bad,
                        first_bad=truncate(event.first_bad, _MOST_WORDS), task=str(event.task), time=time,
                    )
                )  # fmt: skip
            case ev.GenerationEnded() if not event.kept:
                self._go_back(event.manifest)
            case _:
                return

    def progress(self) -> DataProgress:
        """The sums."""
        return DataProgress(
            files=self._splits.number, epochs=self._epochs, passes=self._passes, records=self._records, bad=self._bad,
            undone=self._undone, differing=self._comparison.sentences,
        )  # fmt: skip

    def names(self) -> Sequence[str]:
        """What the splits are called, by their number."""
        return self._names

    def files(self) -> dict[int, FileProgress]:
        """Split → its newest pass."""
        return {split: epochs[max(epochs)] for split, epochs in self._done.items() if epochs}

    def _add_splits(self, event: ev.JobStarted | ev.SplitsAdded) -> None:
        complete = len(self._names) == self._splits.number
        if not self._splits.take(event) or not complete:
            return
        for name in islice(names_of(event), KEPT_NAMES - len(self._names)):
            self._characters += len(name)
            if self._characters > KEPT_CHARACTERS:
                return
            self._names.append(name)

    def _add(self, progress: FileProgress) -> None:
        epochs = self._done.get(progress.split, {})
        if (before := epochs.get(progress.epoch)) is not None:
            self._count(before, -1)
        elif self._kept < KEPT_PASSES:
            self._kept += 1
        else:
            self._count(progress, 1)
            return
        self._done.setdefault(progress.split, epochs)[progress.epoch] = progress
        self._count(progress, 1)

    def _count(self, progress: FileProgress, number: int) -> None:
        self._passes += number
        self._records += number * progress.count
        self._bad += number * progress.bad

    def _go_back(self, manifest: str) -> None:
        """Passes that the manifest does not hold are undone; a pass that it holds a part of is continued."""
        held = {split: (epoch, count) for split, epoch, count, _ in dict(self._manifests).get(manifest, ())}
        for split, epochs in self._done.items():
            epoch, count = held.get(split, (NO_EPOCH, 0))
            kept = {
                at: progress
                for at, progress in epochs.items()
                if at < epoch or (at == epoch and progress.count == count)
            }
            for progress in (progress for at, progress in epochs.items() if at not in kept):
                self._undone += progress.count
                self._kept -= 1
                self._count(progress, -1)
            self._done[split] = kept
