"""List of a job's training splits, as its events add to it: numbered from 0 on without a gap, until it is closed. Pure.

Until version 4 of the event log `JobStarted` held the list, whole and closed; since then `SplitsAdded` events do.
"""

from collections.abc import Iterator, Sequence

import msgspec

from afo.events import types as ev
from afo.protocol.input_file import InputFile

#: Bytes of the splits of one event, about: far below the longest line that any reader of a log takes.
EVENT_BYTES = 256 << 10

_encoder = msgspec.json.Encoder()


class SplitList:
    """How many splits the events so far name, and whether that is all. An event that does not fit changes nothing."""

    def __init__(self) -> None:
        self.number = 0
        #: No more come.
        self.closed = False
        #: The first event that did not fit, in words; '' while all do.
        self.problem = ""

    def take(self, event: ev.AnyEvent) -> bool:
        """The next event of the job; True if it adds to the list."""
        match event:
            case ev.JobStarted(train_files=None):
                return False
            case ev.JobStarted() | ev.SplitsAdded():
                return self._add(event)
            case ev.SplitLeased() | ev.SplitDone() if not 0 <= event.split < self.number:
                self._note(f"split {event.split} is read, and the list of splits has {self.number}")
        return False

    def _add(self, event: ev.JobStarted | ev.SplitsAdded) -> bool:
        if words := misfit(event, self.number, self.closed):
            self._note(words)
            return False
        self.number += len(_splits(event))
        self.closed = closes(event)
        return True

    def _note(self, problem: str) -> None:
        self.problem = self.problem or problem


def misfit(event: ev.JobStarted | ev.SplitsAdded, number: int, closed: bool) -> str:
    """Why the event cannot add to a list of `number` splits, in words; '' if it can."""
    first = event.first if isinstance(event, ev.SplitsAdded) else 0
    if closed:
        return f"splits are added from number {first} on, and the list of splits was closed with {number}"
    if first != number:
        fault = "some are missing" if first > number else "some would be there twice"
        return f"splits are added from number {first} on, and the list of splits has {number}: {fault}"
    return ""


def _splits(event: ev.JobStarted | ev.SplitsAdded) -> Sequence[str] | Sequence[InputFile]:
    return event.splits if isinstance(event, ev.SplitsAdded) else event.train_files or ()


def names_of(event: ev.JobStarted | ev.SplitsAdded) -> Sequence[str]:
    """What the splits that the event adds are called."""
    if isinstance(event, ev.JobStarted):
        return event.train_files or ()
    return [split.name for split in event.splits]


def closes(event: ev.JobStarted | ev.SplitsAdded) -> bool:
    """No splits come after those of the event."""
    return event.closed if isinstance(event, ev.SplitsAdded) else event.train_files is not None


def events_of(
    first: int, splits: Sequence[InputFile], *, closed: bool, most: int = EVENT_BYTES
) -> Iterator[ev.SplitsAdded]:
    """Events that add `splits`, numbered from `first` on, of about `most` bytes each; the last one may close the list.

    None where there is nothing to say.
    """
    begin = size = 0
    for index, split in enumerate(splits):
        size += len(_encoder.encode(split))
        if size > most and index > begin:
            yield ev.SplitsAdded(first=first + begin, splits=tuple(splits[begin:index]), closed=False)
            begin, size = index, len(_encoder.encode(split))
    if closed or begin < len(splits):
        yield ev.SplitsAdded(first=first + begin, splits=tuple(splits[begin:]), closed=closed)
