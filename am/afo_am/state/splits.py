"""Splits of the training files, leased to workers one (row, epoch) at a time. Pure; no clock, no I/O."""

import hashlib
import heapq
from collections.abc import Container, Iterable

from msgspec import Struct

from afo.errors import ProtocolError
from afo.events.accounting import Position, completed_at, records_at
from afo.rpc.messages import TaskId


class Lease(Struct, frozen=True):
    """A file to read. `resume`: it was begun before in this epoch."""

    row: int
    epoch: int
    resume: bool


class SplitQueue:
    """All files of a job times its epochs.

    A row is offered for epoch e+1 only when its epoch e was acknowledged, so one position a row is enough to know
    what was applied. Within an epoch the order is a function of the seed.
    """

    def __init__(self, rows: int, epochs: int, seed: int, shuffled: bool) -> None:
        self.rows = rows
        self.epochs = epochs
        self._seed = seed
        self._shuffled = shuffled
        #: Epochs completed by each row; never above `epochs`.
        self.completed = [0] * rows
        #: Who reads a row now, always in epoch `completed[row]`.
        self.leases: dict[int, TaskId] = {}
        #: Rows begun by somebody in their present epoch.
        self.begun: set[int] = set()
        #: What each completed (row, epoch) held: (count, xor).
        self.totals: dict[tuple[int, int], tuple[int, int]] = {}
        #: Of those that held bad records: (all of them, those not in its count because they could not be read).
        self.bad: dict[tuple[int, int], tuple[int, int]] = {}
        #: Sums of the two, so that an acknowledgement costs the same however many files there are.
        self.records = 0
        self.bad_records = 0
        #: Completed (row, epoch) pairs of the surviving history.
        self.done = 0
        self._heap: list[tuple[int, int, int]] = []
        self._refill()

    @property
    def total(self) -> int:
        """All (row, epoch) pairs of the job."""
        return self.rows * self.epochs

    @property
    def finished(self) -> bool:
        """Everything was read and acknowledged."""
        return self.done == self.total

    def peek(self) -> Lease | None:
        """The next file to hand out, or None when all that are left are leased."""
        while self._heap:
            epoch, _, row = self._heap[0]
            if epoch == self.completed[row] and row not in self.leases:
                return Lease(row, epoch, row in self.begun)
            heapq.heappop(self._heap)
        return None

    def forgotten(self, task: TaskId, holding: Container[int]) -> Lease | None:
        """A lease of `task` that it does not know of: it is the same one, so nothing changes by giving it again."""
        for row, holder in self.leases.items():
            if holder == task and row not in holding:
                return Lease(row, self.completed[row], resume=True)
        return None

    def lease(self, row: int, task: TaskId) -> None:
        """`task` reads `row` from now on."""
        if row in self.leases or self.completed[row] >= self.epochs:
            raise ProtocolError(f"split {row} is not free: held by {self.leases.get(row)}")
        self.leases[row] = task
        self.begun.add(row)

    def is_repeated(self, row: int, epoch: int, count: int, xor: int) -> bool:
        """True for an acknowledgement that was taken before with the same numbers."""
        return 0 <= row < self.rows and epoch < self.completed[row] and self.totals.get((row, epoch)) == (count, xor)

    def check(self, row: int, epoch: int, task: TaskId) -> None:
        """Raises `ProtocolError` unless `task` holds `row` in `epoch`."""
        holder = self.leases.get(row)
        if holder != task or epoch != self.completed[row]:
            raise ProtocolError(
                f"split {row} of epoch {epoch} is not leased to {task} (attempt {task.attempt}) but to {holder}"
            )

    def complete(self, row: int, epoch: int, count: int, xor: int, bad: int = 0, unread: int = 0) -> None:
        """All records of `row` were applied in `epoch`; `bad` were skipped, of which `unread` are not in `count`."""
        self.leases.pop(row, None)
        self.begun.discard(row)
        self.totals[row, epoch] = (count, xor)
        if bad:
            self.bad[row, epoch] = (bad, unread)
        self.records += count + unread
        self.bad_records += bad
        self.completed[row] = epoch + 1
        self.done += 1
        self._offer(row)

    def release(self, task: TaskId) -> list[int]:
        """Rows that `task` held are free again."""
        rows = [row for row, holder in self.leases.items() if holder == task]
        for row in rows:
            del self.leases[row]
            self._offer(row)
        return rows

    def roll_back(self, positions: Iterable[Position]) -> None:
        """Return to the state that a checkpoint holds; rows it does not name return to the beginning.

        A row whose records were all applied counts as complete only if its total is known; else it is offered again
        and its reader finds itself at the end at once.
        """
        self.leases.clear()
        self.completed = [0] * self.rows
        for row, epoch, count, xor in positions:
            whole = completed_at(epoch, count, xor, self.totals.get((row, epoch)))
            self.completed[row] = min(whole, self.epochs)
        self.begun = {row for row in range(self.rows) if self.completed[row] < self.epochs}
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
        once they are a tenth of all.
        """
        if self.done * 10 < self.total or not self.done:
            return False
        return self.bad_records > allowed * self.records * self.total / self.done

    def _refill(self) -> None:
        self._heap = []
        for row in range(self.rows):
            self._offer(row)

    def _offer(self, row: int) -> None:
        epoch = self.completed[row]
        if epoch < self.epochs:
            heapq.heappush(self._heap, (epoch, self._order(row, epoch), row))

    def _order(self, row: int, epoch: int) -> int:
        if not self._shuffled:
            return row
        digest = hashlib.blake2b(f"{self._seed}/{epoch}/{row}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big")
