"""Discovery of training splits: what the source of a job's data holds, and its event log does not name yet. Pure."""

from collections.abc import Sequence

from afo.errors import ProtocolError
from afo.events.split_list import EVENT_BYTES, events_of
from afo.protocol.input_file import InputFile
from afo_am.state.commands import SplitsFound
from afo_am.state.context import Context


class SplitDiscovery:
    """Adds splits to the job: those of its configuration at the start, others as a source finds them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Of the splits of one event, about.
        self.event_bytes = EVENT_BYTES

    def begin(self) -> None:
        """Name what the log lacks of the configuration's splits: an earlier start may have ended half-way."""
        config = self._context.state.config
        if not self._context.state.splits.closed:
            self._add(0, config.splits, closed=config.train_closed)

    def add(self, found: SplitsFound) -> None:
        """A source tells what it holds; it may tell again what is known.

        Raises `ProtocolError` for splits behind ones that it left out, and for others than a closed list has.
        """
        if not self._context.state.verdict:
            self._add(found.first, found.splits, closed=found.closed)

    def _add(self, first: int, splits: Sequence[InputFile], *, closed: bool) -> None:
        queue = self._context.state.splits
        if first > queue.number:
            raise ProtocolError(f"splits from number {first} on were found, and the job has {queue.number}")
        new = splits[queue.number - first :]
        if queue.closed:
            if new:
                raise ProtocolError(f"{len(new)} splits were found after the list was closed with {queue.number}")
            return
        for event in events_of(queue.number, new, closed=closed, most=self.event_bytes):
            self._context.record(event)
