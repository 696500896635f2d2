"""Passes over training files that are part of the model, folded record by record. Pure."""

from collections import deque

from afo.events import types as ev
from afo.job_dir.lineage import NO_EPOCH
from afo_history_server.model.job_history import DataProgress, FileProgress

#: Manifests whose data positions are remembered: a job goes back to one of the newest.
_KEPT_MANIFESTS = 16

Positions = tuple[tuple[int, int, int, int], ...]


class DataFold:
    """Takes a job's events in their order."""

    def __init__(self) -> None:
        self._shape = 0, 0
        #: Row → its passes that count, by epoch.
        self._done: dict[int, dict[int, FileProgress]] = {}
        self._manifests: deque[tuple[str, Positions]] = deque(maxlen=_KEPT_MANIFESTS)
        self._undone = 0

    def take(self, event: ev.AnyEvent, time: float) -> None:
        """The next event; most are of no interest here."""
        match event:
            case ev.JobStarted():
                self._shape = len(event.train_files), event.epochs
            case ev.CheckpointWritten():
                self._manifests.append((event.manifest, event.positions))
            case ev.SplitDone():
                self._done.setdefault(event.split, {})[event.epoch] = FileProgress(
                    split=event.split, epoch=event.epoch, count=event.count, bad=event.bad, first_bad=event.first_bad,
                    task=str(event.task), time=time,
                )  # fmt: skip
            case ev.GenerationEnded() if not event.kept:
                self._go_back(event.manifest)
            case _:
                return

    def progress(self) -> DataProgress:
        """The sums."""
        passes = [progress for epochs in self._done.values() for progress in epochs.values()]
        files, epochs = self._shape
        return DataProgress(
            files=files, epochs=epochs, passes=len(passes), records=sum(progress.count for progress in passes),
            bad=sum(progress.bad for progress in passes), undone=self._undone,
        )  # fmt: skip

    def files(self) -> dict[int, FileProgress]:
        """Row → its newest pass."""
        return {split: epochs[max(epochs)] for split, epochs in self._done.items() if epochs}

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
            self._undone += sum(progress.count for at, progress in epochs.items() if at not in kept)
            self._done[split] = kept
