"""The journal: the AM's event log, durable before what it says is done."""

import logging
import time
from collections.abc import Iterable

from afo import storage
from afo.errors import ClusterUnreachable, NoSpaceLeft, OutOfDescriptors
from afo.events import event_log
from afo.events import types as ev
from afo.job.paths import JobPaths

log = logging.getLogger("afo.am")

#: How long a write waits while no file can be opened.
DESCRIPTOR_PATIENCE_S = 60.0
#: What has to be free before a start goes on.
_ROOM_BYTES = 1 << 16


class Journal:
    """Writes one segment; each start of the AM has its own, so no two writers ever share a file.

    `last_seq` is the number of the job's last event (`afo_am.engine.replay`), 0 for a new job: the next one follows on
    it, so that a missing end of the segment before shows.
    """

    def __init__(self, paths: JobPaths, am_attempt: int, incarnation: int, last_seq: int) -> None:
        self._url = paths.events_segment(am_attempt, incarnation)
        self._am_attempt = am_attempt
        self._incarnation = incarnation
        self._seq = last_seq

    def write(self, events: Iterable[tuple[ev.AnyEvent, float]]) -> None:
        """Append events with their wall clock times; durable when it returns. Where it raises no number is used up."""
        lines = [
            event_log.encode_line(self._record(seq, event, time))
            for seq, (event, time) in enumerate(events, self._seq + 1)
        ]
        if lines:
            self._append(b"".join(lines))
            self._seq += len(lines)

    def _append(self, lines: bytes) -> None:
        """Waits for a descriptor: an AM that ended for want of one would begin again in the same straits."""
        deadline = time.monotonic() + DESCRIPTOR_PATIENCE_S
        while True:
            try:
                return storage.append(self._url, lines)
            except OutOfDescriptors as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("trying again: %s", error)
            time.sleep(0.2)

    def _record(self, seq: int, event: ev.AnyEvent, time: float) -> event_log.Record:
        return event_log.Record(
            seq=seq, am_attempt=self._am_attempt, incarnation=self._incarnation, time=time, event=event
        )


def await_room(directory: str, patience_s: float) -> str:
    """Return once there is room for a journal in `directory`, which is made if need be, for its owner alone.

    What it waited for is a cause of `afo.failures.causes`, '' where nothing was in the way.

    An AM that finds its disk full ends, for a part of a line may have been written; without this its further starts
    would be over within a minute. Raises `NoSpaceLeft` or `ClusterUnreachable` after `patience_s`, and what else
    `afo.storage` raises.
    """
    waited_for = ""

    def require_room() -> None:
        nonlocal waited_for
        try:
            _require_room(directory)
        except NoSpaceLeft:
            waited_for = "disk_full"
            raise
        except ClusterUnreachable:
            waited_for = "storage_unreachable"
            raise

    storage.patiently(require_room, patience_s, (ClusterUnreachable, NoSpaceLeft))
    return waited_for


def _require_room(directory: str) -> None:
    probe = storage.join(directory, ".room")
    storage.make_dirs(directory, mode=0o700)
    storage.write_bytes(probe, bytes(_ROOM_BYTES))
    storage.delete(probe)
