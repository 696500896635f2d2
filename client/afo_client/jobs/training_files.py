"""Training files of a job, counted by its event log."""

from afo.events.event_log import Record
from afo.events.event_tail import EventTail
from afo.events.split_list import SplitList
from afo.events.types import SplitsAdded
from afo.protocol.am_config import AmConfig


def count_files(events_url: str, config: AmConfig) -> int:
    """Files that the log's splits are, or parts of; where it lists none, those that the job was submitted with.

    Raises what `afo.storage` raises.
    """
    splits, urls = SplitList(), set[str]()
    for record in EventTail(events_url).poll():
        event = record.event if isinstance(record, Record) else None
        if event is not None and splits.take(event) and isinstance(event, SplitsAdded):
            urls |= {split.url for split in event.splits}
        if splits.closed:
            break
    return len(urls or set(config.train_files))
