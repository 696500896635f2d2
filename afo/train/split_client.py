"""A worker's splits: asked for, applied, acknowledged."""

from collections.abc import Callable
from typing import Any, Literal

from afo.data.pipeline.batch_fragments import Ended
from afo.data.pipeline.split_reader import Lease, from_nearer_by
from afo.job_dir.lineage import NO_EPOCH
from afo.logs.task_log import LOG, one_line
from afo.rpc import messages as m
from afo.storage.url import part_name
from afo.train.setup import Setup

#: Epoch, records applied, xor of their hashed sample ids.
Position = tuple[int, int, int]
NOT_BEGUN: Position = (NO_EPOCH, 0, 0)


class Splits:
    """What this process holds. `next_split` is called by the reading thread, the rest by the training loop."""

    def __init__(self, setup: Setup, read_position: Callable[[int], Position]) -> None:
        """`read_position`: where a split stands as the model on the parameter servers holds it."""
        self._setup = setup
        self._read_position = read_position
        #: Splits leased and not acknowledged. Written one by one, so the two threads need no lock.
        self._holding: dict[int, int] = {}
        self._applied: dict[int, Position] = {}
        #: Where each split stood when it was leased, if another process began it.
        self._begun: dict[int, Position] = {}
        #: File of every split that was leased.
        self.urls: dict[int, str] = {}

    def next_split(self) -> Lease | Literal["wait", "end"]:
        """Ask the AM what to read. A split that another process began goes on where the model stands."""
        generation, held = self._setup.task.generation, self._holding.copy()
        request = m.SplitRequest(
            task=self._setup.id, generation=generation, holding=tuple(held), epochs=tuple(held.values())
        )
        reply = self._setup.master.next_split(request)
        if reply.state != "lease":
            return reply.state
        self._holding[reply.split] = reply.epoch
        self.urls[reply.split] = reply.url
        skip = 0
        if reply.resume:
            self._begun[reply.split] = epoch, count, _ = self._read_position(reply.split)
            skip = count if epoch == reply.epoch else 0
        LOG.info("epoch %d, from record %d: %s", reply.epoch + 1, skip, one_line(part_name(reply.url, reply.part)))
        return from_nearer_by(Lease(reply.split, reply.epoch, reply.url, skip, reply.part), self._setup.job.data)

    def position_of(self, split: int) -> Position:
        """A split's position before this process's first batch of it."""
        return self._begun.get(split, NOT_BEGUN)

    def note_applied(self, splits: Any, positions: Any) -> None:
        """Remember the positions [S, 3] of `splits` [S] that a step has written."""
        for split, (epoch, count, xor) in zip(splits, positions, strict=True):
            self._applied[int(split)] = (int(epoch), int(count), int(xor))

    def acknowledge(self, ended: Ended) -> None:
        """Tell the AM that the last record of a split was applied, and how many bad ones were skipped."""
        lease = ended.lease
        epoch, count, xor = self._applied.get(lease.split, (None, 0, 0))
        if epoch != lease.epoch:
            # Nothing was left of it to apply: what is known of it stands with the model.
            epoch, count, xor = self._read_position(lease.split)
        if epoch != lease.epoch:
            count = xor = 0
        self._setup.master.ack_split(
            m.SplitAck(
                task=self._setup.id,
                generation=self._setup.task.generation,
                split=lease.split,
                epoch=lease.epoch,
                count=count + ended.left_out,
                xor=(xor ^ ended.xor) % 2**64,
                bad=ended.bad.bad,
                unread=ended.bad.unread,
                first_bad=ended.bad.first,
            )
        )
        if self._holding.get(lease.split) == lease.epoch:
            del self._holding[lease.split]
