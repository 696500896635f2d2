"""Replay of what earlier starts of the AM wrote. The state follows from every event, so none is just left out.

Events are numbered without a gap, across segments. A line in which one bit has flipped is mended. One that is beyond
that is passed over where its number shows that nothing is lost, or that it held an observation (`OBSERVATIONS`). Any
other damage ends the AM: what it decided cannot be known again.
"""

import contextlib
import logging
import re
from collections.abc import Iterator

from msgspec import Struct

from afo import storage
from afo.errors import AlreadyExists, DataError, NotFound
from afo.events import event_log
from afo.events import types as ev
from afo.events.event_log import Record, UnknownRecord
from afo.events.split_list import SplitList
from afo.job.paths import JobPaths
from afo_am.state.apply import OBSERVATIONS

log = logging.getLogger("afo.am")

#: How a line begins. What stands there is believed of a damaged line if its number is the one that is missing.
_HEAD = re.compile(
    rb'\{"v":\d+,"seq":(\d+),"am_attempt":\d+,"incarnation":\d+,"time":[0-9.e+]+,"event":\{"type":"(\w+)"[,}]'
)
#: Damaged lines that are kept in files of their own; the log itself keeps all of them.
_MOST_KEPT = 100
_OBSERVATIONS = frozenset(kind.__name__ for kind in OBSERVATIONS)


class DamagedJournal(DataError):
    """An event is lost that the state depends on; the text names file, line and offset, and says how to go on."""


class Earlier(Struct, frozen=True):
    """All events so far, and the number of the last one; 0 for a new job."""

    records: tuple[Record, ...] = ()
    last_seq: int = 0


class Line(Struct, frozen=True):
    """A line of a segment; `number` is 1 for the first, `offset` in bytes."""

    segment: str
    number: int
    offset: int
    content: bytes

    def __str__(self) -> str:
        return f"{self.segment}, line {self.number} (byte {self.offset})"


def read_earlier(paths: JobPaths, checkpoint_dir: str) -> Earlier:
    """What former starts of the AM wrote. Whoever of them still lives can write no more.

    Damaged lines are kept beside the log and named in the AM's own. Raises `DamagedJournal`, and what `afo.storage`
    raises. `checkpoint_dir` is the job file's `checkpoint.dir`.
    """
    replay = Replay()
    for segment in _segments(paths):
        for line in _lines(segment, storage.read_bytes(segment)):
            replay.take(line)
    replay.end()
    for line, what in replay.damaged[:_MOST_KEPT]:
        _keep(paths.damaged_line(line.segment, line.number), line)
        log.warning("%s: the event log is damaged: %s", line, what)
    if replay.lost:
        raise DamagedJournal(f"{replay.lost}; {_how_to_go_on(paths, checkpoint_dir, replay.records)}")
    return Earlier(tuple(replay.records), replay.last_seq)


class Replay:
    """Joins the lines of all segments. Pure."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        #: Of the last event that is there, or is known to be missing.
        self.last_seq = 0
        #: Damaged lines, and what became of each.
        self.damaged: list[tuple[Line, str]] = []
        #: The first loss that cannot be made up for, '' while there is none.
        self.lost = ""
        self._splits = SplitList()
        #: Damaged lines since the last record: whether they held events shows with the number of the next.
        self._open: list[Line] = []

    def take(self, line: Line) -> None:
        """The next line."""
        record = event_log.decode_line(line.content) or self._repair(line)
        if record is None:
            self._open.append(line)
            return
        if record.v == 1 and line.number == record.seq == 1:
            self.last_seq = 0  # each segment was numbered for itself
        if self.records and record == self.records[-1]:
            self.damaged.append((line, "it is there twice"))
            return
        self._close(record.seq - 1 - self.last_seq, line)
        self.last_seq = record.seq
        if isinstance(record, UnknownRecord):
            self._lose(line, f"{record.event.type!r}, an event of another version of afo, cannot be taken in")
            return
        self._splits.take(record.event)
        if self._splits.problem:
            self._lose(line, self._splits.problem)
        self.records.append(record)

    def end(self) -> None:
        """There are no more lines."""
        if self._open:
            self._close(len(self._open), self._open[-1])

    def _repair(self, line: Line) -> Record | UnknownRecord | None:
        mended = event_log.repair_line(line.content)
        record = None if mended is None else event_log.decode_line(mended)
        if record is not None:
            self.damaged.append((line, "one bit of it had flipped; the event is known"))
        return record

    def _close(self, missing: int, line: Line) -> None:
        """So many events are missing before what stands in `line`."""
        lines, self._open = self._open, []
        kinds = [_kind(line, self.last_seq + number) for number, line in enumerate(lines, 1)]
        if missing == 0:
            self.damaged += [(line, "no event is missing") for line in lines]
        elif missing == len(lines) and _OBSERVATIONS.issuperset(kinds):
            fates = (f"{kind} is lost, and nothing follows from it" for kind in kinds)
            self.damaged += zip(lines, fates, strict=True)
            self.last_seq += missing
        else:
            self.damaged += [(line, "it cannot be done without") for line in lines]
            self._lose(lines[0] if lines else line, self._words(missing, kinds if missing == len(lines) else []))

    def _words(self, missing: int, kinds: list[str]) -> str:
        first = self.last_seq + 1
        if missing < 0:
            return f"event {first + missing} comes behind event {self.last_seq}"
        which = f"event {first}" if missing == 1 else f"{missing} events, number {first} to {self.last_seq + missing},"
        known = f" ({', '.join(kind or '?' for kind in kinds)})" if any(kinds) else ""
        return f"{which}{known} cannot be read any more"

    def _lose(self, line: Line, what: str) -> None:
        self.lost = self.lost or f"{line}: the event log is damaged: {what}, and what followed from it is not known"


def _segments(paths: JobPaths) -> Iterator[str]:
    try:
        found = storage.list_dir(paths.events)
    except NotFound:
        return
    for segment in sorted(found, key=lambda info: info.url):
        # A start that was killed while it wrote has left its file open: unreadable until it is taken over.
        storage.take_over(segment.url)
        yield segment.url


def _lines(segment: str, data: bytes) -> Iterator[Line]:
    """Of what a crash left of the last one nothing; it is all there if only its newline is not."""
    lines, rest = event_log.split_lines(data)
    if event_log.decode_line(rest) or event_log.repair_line(rest):
        lines.append(rest)
    offset = 0
    for number, content in enumerate(lines, 1):
        yield Line(segment, number, offset, content)
        offset += len(content) + 1


def _kind(line: Line, seq: int) -> str:
    """The type of event `seq`, if the beginning of a damaged line tells it; else ''."""
    head = _HEAD.match(line.content)
    return head[2].decode() if head and int(head[1]) == seq else ""


def _keep(url: str, line: Line) -> None:
    with contextlib.suppress(AlreadyExists):  # an earlier start kept it
        storage.write_bytes(url, line.content, overwrite=False)


def _how_to_go_on(paths: JobPaths, checkpoint_dir: str, records: list[Record]) -> str:
    kept = f"damaged lines are kept in {paths.dir}/damaged"
    if not any(isinstance(record.event, ev.CheckpointWritten) for record in records):
        return f"{kept}; no checkpoint is known: `afo resubmit {paths.job_id}` begins anew"
    model = paths.checkpoints(checkpoint_dir)
    return (
        f"{kept}, the model that was saved last in {model}; `afo resubmit {paths.job_id} --set"
        f" checkpoint.warm_start={model}` begins with that model, and reads all data"
    )
