"""Leases of splits and their files, ahead of their use."""

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from afo.data.io.local_file import LocalFile, is_local
from afo.data.pipeline.split_reader import Lease

#: Time between two questions while all remaining splits are held by others.
POLL_S = 0.1

#: What there is to read next: a lease, `wait` while others hold all that is left, or the `end` of the data.
NextSplit = Callable[[], Lease | Literal["wait", "end"]]


class Fetched(NamedTuple):
    """A lease whose file lies here."""

    lease: Lease
    file: LocalFile


class SplitFetcher(threading.Thread):
    """Keeps `open_splits` leases at work, and one more on its way when files must be copied here first.

    `items` yields Fetched, "wait", "end" or the error that ended this thread. Whoever has read a split to its end
    calls `allow_next`.
    """

    def __init__(self, next_split: NextSplit, scratch: Path, open_splits: int) -> None:
        super().__init__(name="split-fetcher", daemon=True)
        self.items: queue.SimpleQueue[Fetched | Literal["wait", "end"] | BaseException] = queue.SimpleQueue()
        self._next_split = next_split
        self._scratch = scratch
        self._permits = threading.Semaphore(open_splits)
        self._stop_asked = threading.Event()
        self._copies = 0

    def allow_next(self) -> None:
        """A split was read to its end: another may be leased."""
        self._permits.release()

    def stop(self) -> None:
        """Lease nothing more; wakes whoever waits for an item."""
        self._stop_asked.set()
        self._permits.release()
        self.items.put("end")

    def run(self) -> None:
        """The thread."""
        try:
            while not self._stop_asked.is_set():
                self._permits.acquire()
                if self._lease_one() == "end":
                    return
        except BaseException as error:  # crosses into the thread that trains, which raises it
            self.items.put(error)

    def _lease_one(self) -> str:
        while not self._stop_asked.is_set():
            lease = self._next_split()
            if isinstance(lease, Lease):
                self.items.put(self._fetch(lease))
                return "lease"
            self.items.put(lease)
            if lease == "end":
                return "end"
            self._stop_asked.wait(POLL_S)
        return "end"

    def _fetch(self, lease: Lease) -> Fetched:
        if is_local(lease.url):
            return Fetched(lease, LocalFile.of(lease.url))
        if not self._copies:
            self._permits.release()
        self._copies += 1
        return Fetched(
            lease, LocalFile.download(lease.url, self._scratch / f"split-{lease.split}-{self._copies}", lease.part)
        )
