"""Splits of the training files, leased to workers one (split, epoch) at a time. Pure; no clock, no I/O."""

import hashlib
import heapq
from collections.abc import Container, Iterable

from msgspec import Struct

from afo.errors import ProtocolError
from afo.events.accounting import Position, completed_at, records_at
from afo.rpc.messages import TaskId


class Lease(Struct, frozen=True):
    """A file to read. `resume`: it was begun before in this epoch."""

    split: int
    epoch: int
    resume: bool


class SplitQueue:
    """All splits that a job has so far, times its epochs.

    A split is offered for epoch e+1 only when its epoch e was acknowledged, so one position a split is enough to know
    what was applied. Within an epoch the order of those that are there is a function of the seed. While splits may
    still come, epochs after the first are offered to nobody: the first is not over.
    """

    def __init__(self, epochs: int, seed: int, shuffled: bool) -> None:
        self.number = 0
        #: No more splits come.
        self.closed = False
        self.epochs = epochs
        self._seed = seed
        self._shuffled = shuffled
        #: Epochs completed by each split; never above `epochs`.
        self.completed: list[int] = []
        #: Who reads a split now, always in epoch `completed[split]`.
        self.leases: dict[int, TaskId] = {}
        #: Splits begun by somebody in their present epoch.
        self.begun: set[int] = set()
        #: What each completed (split, epoch) held: (count, xor).
        self.totals: dict[tuple[int, int], tuple[int, int]] = {}
        #: Of those that held bad records: (all of them, those not in its count because they could not be read).
        self.bad: dict[tuple[int, int], tuple[int, int]] = {}
        #: Sums of the two, so that an acknowledgement costs the same however many files there are.
        self.records = 0
        self.bad_records = 0
        #: Completed (split, epoch) pairs of the surviving history.
        self.done = 0
        self._heap: list[tuple[int, int, int]] = []

    def add(self, number: int, *, closed: bool) -> None:
        """There are `number` more splits; `closed`: and that is all. Raises `ProtocolError` after the last one."""
        if self.closed:
            raise ProtocolError(f"the list of splits was closed with {self.number}")
        first, self.number, self.closed = self.number, self.number + number, closed
        self.completed += [0] * number
        for split in range(first, self.number):
            self._offer(split)
        for split, epoch in enumerate(self.completed) if closed else ():
            if epoch:
                self._offer(split)

    @property
    def total(self) -> int:
        """All (split, epoch) pairs of the job, as far as they are known."""
        return self.number * self.epochs

    @property
    def finished(self) -> bool:
        """Everything was read and acknowledged, and nothing more comes."""
        return self.closed and self.done == self.total

    @property
    def starved(self) -> bool:
        """Nobody has anything to read, and more may come."""
        return not self.closed and not self.leases and self.peek() is None

    def peek(self) -> Lease | None:
        """The next file to hand out, or None when all that are left are leased."""
        while self._heap:
            epoch, _, split = self._heap[0]
            if epoch == self.completed[split] and split not in self.leases:
                return Lease(split, epoch, split in self.begun)
            heapq.heappop(self._heap)
        return None

    def forgotten(self, task: TaskId, holding: Container[int]) -> Lease | None:
        """A lease of `task` that it does not know of: it is the same one, so nothing changes by giving it again."""
        for split, holder in self.leases.items():
            if holder == task and split not in holding:
                return Lease(split, self.completed[split], resume=True)
        return None

    def is_free(self, split: int, epoch: int) -> bool:
        """Nobody has read `split` to its end in this epoch, or does so now, and it was in the epochs before."""
        return (
            0 <= split < self.number
            and epoch == self.completed[split]
            and self._is_open(epoch)
            and split not in self.leases
        )

    def lease(self, split: int, task: TaskId) -> None:
        """`task` reads `split` from now on."""
        if split in self.leases or not self._is_open(self.completed[split]):
            raise ProtocolError(f"split {split} is not free: held by {self.leases.get(split)}")
        self.leases[split] = task
        self.begun.add(split)

    def is_repeated(self, split: int, epoch: int, count: int, xor: int) -> bool:
        """True for an acknowledgement that was taken before with the same numbers."""
        return (
            0 <= split < self.number
            and epoch < self.completed[split]
            and self.totals.get((split, epoch)) == (count, xor)
        )

    def check(self, split: int, epoch: int, task: TaskId) -> None:
        """Raises `ProtocolError` unless `task` holds `split` in `epoch`."""
        holder = self.leases.get(split)
        if holder != task or epoch != self.completed[split]:
            raise ProtocolError(
                f"split {split} of epoch {epoch} is not leased to {task} (attempt {task.attempt}) but to {holder}"
            )

    def complete(self, split: int, epoch: int, count: int, xor: int, bad: int = 0, unread: int = 0) -> None:
        """All records of `split` were applied in `epoch`; `bad` were skipped, of which `unread` are not in `count`."""
        self.leases.pop(split, None)
        self.begun.discard(split)
        self.totals[split, epoch] = (count, xor)
        if bad:
            self.bad[split, epoch] = (bad, unread)
        self.records += count + unread
        self.bad_records += bad
        self.completed[split] = epoch + 1
        self.done += 1
        self._offer(split)

    def release(self, task: TaskId) -> list[int]:
        """Splits that `task` held are free again."""
        held = [split for split, holder in self.leases.items() if holder == task]
        for split in held:
            del self.leases[split]
            self._offer(split)
        return held

    def roll_back(self, positions: Iterable[Position]) -> None:
        """Return to the state that a checkpoint holds; splits it does not name return to the beginning.

        A split whose records were all applied counts as complete only if its total is known; else it is offered again
        and its reader finds itself at the end at once.
        """
        self.leases.clear()
        self.completed = [0] * self.number
        for split, epoch, count, xor in positions:
            whole = completed_at(epoch, count, xor, self.totals.get((split, epoch)))
            self.completed[split] = min(whole, self.epochs)
        self.begun = {split for split in range(self.number) if self.completed[split] < self.epochs}
        self.totals = {key: value for key, value in self.totals.items() if key[1] < self.completed[key[0]]}
        self.bad = {key: value for key, value in self.bad.items() if key in self.totals}
        self.bad_records = sum(bad for bad, _ in self.bad.values())
        self.records = self.samples() + sum(unread for _, unread in self.bad.values())
        self.done = sum(self.completed)
        self._refill()

    def samples_at(self, positions: Iterable[Position]) -> int:
        """Records that were applied up to these positions, those of the epochs before included."""
        return records_at(positions, ((key, count) for key, (count, _) in self.totals.items()))

    def samples(self) -> int:
        """Records of all completed splits."""
        return sum(count for count, _ in self.totals.values())

    def has_too_many_bad(self, allowed: float) -> bool:
        """Whether more records are bad than the share `allowed` of all that there will be.

        How many there will be is known when all files are read; before, the files read so far stand for the others,
        once they are a tenth of all. Of files that are still to come nothing is known.
        """
        if self.done * 10 < self.total or not self.done:
            return False
        return self.bad_records > allowed * self.records * self.total / self.done

    def _refill(self) -> None:
        self._heap = []
        for split in range(self.number):
            self._offer(split)

    def _offer(self, split: int) -> None:
        epoch = self.completed[split]
        if self._is_open(epoch):
            heapq.heappush(self._heap, (epoch, self._order(split, epoch), split))

    def _is_open(self, epoch: int) -> bool:
        return epoch < self.epochs and (self.closed or epoch == 0)

    def _order(self, split: int, epoch: int) -> int:
        if not self._shuffled:
            return split
        digest = hashlib.blake2b(f"{self._seed}/{epoch}/{split}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big")
