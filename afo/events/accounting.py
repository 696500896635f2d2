"""Accounting of a job's training records, from its event log: acknowledged, read again, perhaps applied twice. Pure.

An acknowledgement says count and xor of a split's records as the parameter servers hold them. What cannot be counted by
it has a bound: a batch whose process died while it was applied, and what others applied while a checkpoint was read
that the model went back to (docs/training.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from afo.events import types as ev
from afo.events.split_list import SplitList, names_of
from afo.events.types import AnyEvent
from afo.failures.causes import HARMLESS
from afo.rpc.messages import TaskId

#: Checkpoints whose positions are remembered, the beginning among them: a job goes back to one of the newest.
_KEPT = 64

#: (split, epoch, count, xor): how far a split was applied.
Position = tuple[int, int, int, int]


class Acknowledged(Struct, frozen=True):
    """One epoch of a split: records in it, xor of their hashed ids, bad ones, and those of them not in `count`."""

    count: int
    xor: int
    bad: int = 0
    unread: int = 0


class Account(Struct, kw_only=True):
    """The account of a job up to some event. Records of splits that were given back by a rollback are not in it."""

    #: What each split is called, by its number.
    splits: Sequence[str] = ()
    epochs: int = 0
    #: The event log names all splits.
    closed: bool = False
    #: Why its list of splits cannot be right, in words; '' where it may be.
    problem: str = ""
    #: By (split, epoch), of the history that the model holds.
    acknowledged: dict[tuple[int, int], Acknowledged] = {}
    #: Acknowledgements whose records were read again, since the model went back to a checkpoint before them.
    given_back: int = 0
    #: Times that the model went back to a checkpoint, or to its beginning.
    rollbacks: int = 0
    #: Of those, the ones to a checkpoint: it may hold batches that its positions do not.
    restored: int = 0
    #: Workers and chiefs that ended while they held a split, in the history that the model holds: a batch each at most.
    interrupted: int = 0
    #: Records whose updates are missing in a restored part (`checkpoint.on_ps_loss: partial`).
    lost_samples: int = 0
    #: Of the newest checkpoint.
    manifest: str = ""
    positions: tuple[Position, ...] = ()
    final: bool = False

    @property
    def number_missing(self) -> int:
        """Epochs of splits that nobody acknowledged."""
        return len(self.splits) * self.epochs - len(self.acknowledged)

    def missing(self) -> Iterator[tuple[int, int]]:
        """(split, epoch) that nobody acknowledged."""
        every = ((split, epoch) for epoch in range(self.epochs) for split in range(len(self.splits)))
        return (split for split in every if split not in self.acknowledged)

    @property
    def saved(self) -> int:
        """Records that the newest checkpoint holds."""
        return records_at(self.positions, ((key, done.count) for key, done in self.acknowledged.items()))

    @property
    def records(self) -> int:
        """All that were acknowledged, epochs together."""
        return sum(done.count for done in self.acknowledged.values())


def records_at(positions: Iterable[Position], counts: Iterable[tuple[tuple[int, int], int]]) -> int:
    """Records that were applied up to these positions, those of the epochs before included.

    `counts`: (split, epoch) and records of each acknowledgement. It takes as long as they are many, whatever epoch a
    position claims.
    """
    reached = {split: (epoch, count) for split, epoch, count, _ in positions}
    before = sum(count for (split, epoch), count in counts if epoch < reached.get(split, (0, 0))[0])
    return before + sum(count for _, count in reached.values())


def completed_at(epoch: int, count: int, xor: int, acknowledged: tuple[int, int] | None) -> int:
    """How many epochs of a split a checkpoint holds whole whose position of it is (epoch, count, xor).

    `acknowledged`: count and xor of that epoch's acknowledgement, which is of the same records or of more.
    """
    return epoch + 1 if acknowledged == (count, xor) else epoch


def account_of(events: Iterable[AnyEvent]) -> Account:
    """The account after these events, which are all of a job in their order."""
    book = Book()
    for event in events:
        book.take(event)
    return book.account


class Book:
    """Keeps the account while events come."""

    def __init__(self) -> None:
        self.account = Account()
        self._list = SplitList()
        self._names: list[str] = []
        self.account.splits = self._names
        self._holders: dict[int, TaskId] = {}
        #: Of each checkpoint: its positions, and `interrupted` when it was written.
        self._checkpoints: dict[str, tuple[tuple[Position, ...], int]] = {"": ((), 0)}

    def take(self, event: AnyEvent) -> None:
        """The next event."""
        account = self.account
        self._take_splits(event)
        match event:
            case ev.JobStarted():
                account.epochs = event.epochs
            case ev.SplitLeased():
                self._holders[event.split] = event.task
            case ev.SplitDone():
                self._holders.pop(event.split, None)
                done = Acknowledged(event.count, event.xor, event.bad, event.unread)
                account.acknowledged[event.split, event.epoch] = done
            case ev.TaskEnded() | ev.ProcessEnded():
                self._release_splits(event)
            case ev.GenerationEnded():
                self._generation_ended(event)
            case ev.VariablesReady():
                self._ready(event)
            case ev.CheckpointWritten():
                account.manifest, account.positions, account.final = event.manifest, event.positions, event.final
                self._checkpoints[event.manifest] = event.positions, account.interrupted
                if len(self._checkpoints) > _KEPT:
                    del self._checkpoints[next(islice(self._checkpoints, 1, None))]

    def _take_splits(self, event: AnyEvent) -> None:
        if self._list.take(event) and isinstance(event, ev.JobStarted | ev.SplitsAdded):
            self._names += names_of(event)
            self.account.closed = self._list.closed
        self.account.problem = self._list.problem

    def _release_splits(self, event: ev.TaskEnded | ev.ProcessEnded) -> None:
        held = [split for split, task in self._holders.items() if task == event.task]
        self.account.interrupted += bool(held) and event.cause not in HARMLESS
        for split in held:
            del self._holders[split]

    def _generation_ended(self, event: ev.GenerationEnded) -> None:
        """Every client starts anew; where some servers stay, so does what those clients had begun to apply."""
        if event.kept:
            self.account.interrupted += len(set(self._holders.values()))
        self._holders.clear()

    def _ready(self, event: ev.VariablesReady) -> None:
        self.account.lost_samples += event.lost_samples
        if not event.kept and (event.generation > 1 or event.restored):
            self._go_back(event.restored)

    def _go_back(self, manifest: str) -> None:
        account = self.account
        positions, interrupted = self._checkpoints.get(manifest, ((), 0))
        whole = {split: self._count_epochs(split, *rest) for split, *rest in positions}
        before = len(account.acknowledged)
        account.acknowledged = {
            (split, epoch): done for (split, epoch), done in account.acknowledged.items() if epoch < whole.get(split, 0)
        }
        account.given_back += before - len(account.acknowledged)
        account.rollbacks += 1
        account.restored += bool(manifest)
        account.interrupted = interrupted

    def _count_epochs(self, split: int, epoch: int, count: int, xor: int) -> int:
        done = self.account.acknowledged.get((split, epoch))
        return completed_at(epoch, count, xor, (done.count, done.xor) if done else None)
