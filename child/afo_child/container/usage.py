"""Resource usage of this Child and every process under it."""

import os
import time

import psutil

from afo.rpc.messages import ProcessWork, Usage

#: Looking for new processes reads all of /proc, so it is done less often than sampling the known ones.
_SEARCH_S = 10.0


class _Totals:
    """Counters of one process that only grow; kept after its end."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.cpu_s, self.read, self.written = 0.0, 0, 0
        #: Read and written, whatever of it reached a disk.
        self.moved = 0

    def sample(self) -> int:
        """Update the counters; returns RSS in bytes. Raises `psutil.Error` when the process is gone."""
        with self.process.oneshot():
            times = self.process.cpu_times()
            self.cpu_s = times.user + times.system
            try:
                counters = self.process.io_counters()
                self.read, self.written = counters.read_bytes, counters.write_bytes
                self.moved = counters.read_chars + counters.write_chars
            except psutil.AccessDenied:
                pass  # hardened kernels hide them; memory and CPU still count
            return int(self.process.memory_info().rss)


class UsageMeter:
    """RSS is summed over the processes (shared pages count in each, as YARN does it); peak is that of the samples."""

    def __init__(self, pid: int | None = None) -> None:
        self._root = psutil.Process(pid or os.getpid())
        self._alive: dict[int, _Totals] = {}
        self._gone = _Totals(self._root)
        self._peak = 0
        self._watched = 0
        self._searched = float("-inf")

    def watch(self, pid: int) -> None:
        """Count a process that was just started, without waiting for the next search; `work` is of it."""
        self._watched = pid
        try:
            self._add(psutil.Process(pid))
        except psutil.NoSuchProcess:
            return

    def sample(self) -> Usage:
        """The present usage."""
        if time.monotonic() - self._searched > _SEARCH_S:
            self._search()
        rss = sum(self._sample_rss(pid) for pid in list(self._alive))
        self._peak = max(self._peak, rss)
        every = [*self._alive.values(), self._gone]
        return Usage(
            rss=rss,
            peak_rss=self._peak,
            cpu_s=round(sum(one.cpu_s for one in every), 2),
            read_bytes=sum(one.read for one in every),
            written_bytes=sum(one.written for one in every),
        )

    @property
    def work(self) -> ProcessWork:
        """Of the process that is watched, alone, at the last sample; nothing once it is gone.

        Who reads its stacks works, too, and says nothing of it.
        """
        watched = self._alive.get(self._watched)
        if watched is None:
            return ProcessWork()
        return ProcessWork(cpu_s=round(watched.cpu_s, 2), moved_bytes=watched.moved)

    def _search(self) -> None:
        self._searched = time.monotonic()
        for process in [self._root, *self._root.children(recursive=True)]:
            self._add(process)

    def _add(self, process: psutil.Process) -> None:
        known = self._alive.get(process.pid)
        if known is None or known.process != process:
            self._bury(process.pid)
            self._alive[process.pid] = _Totals(process)

    def _sample_rss(self, pid: int) -> int:
        try:
            return self._alive[pid].sample()
        except psutil.Error:
            self._bury(pid)
            return 0

    def _bury(self, pid: int) -> None:
        """Add the counters of a process that is gone to those of the others that are."""
        totals = self._alive.pop(pid, None)
        if totals is not None:
            self._gone.cpu_s += totals.cpu_s
            self._gone.read += totals.read
            self._gone.written += totals.written
