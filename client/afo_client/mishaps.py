"""Failures of a job's own making, told while it goes on: a person may want to end it before it has tried again."""

from afo import event_log
from afo import events as ev
from afo.exits import CAUSES
from afo_client.console import without_control
from afo_client.event_tail import EventTail
from afo_client.job_view import JobView
from afo_client.summary import TAIL_LINES


class Mishaps:
    """Reads the event log when the job has restarted something, and only then."""

    def __init__(self, events_dir: str) -> None:
        self._events = EventTail(events_dir)
        self._restarts = 0

    def news(self, view: JobView) -> list[str]:
        """What has failed since the last call, each with the last lines of its stderr."""
        if view.restarts <= self._restarts:
            return []
        self._restarts = view.restarts
        ends = [record.event for record in self._events.poll() if isinstance(record, event_log.Record)]
        return [_text(end) for end in ends if isinstance(end, ev.TaskEnded | ev.ProcessEnded) and _is_own(end.cause)]


def _is_own(cause: str) -> bool:
    entry = CAUSES.get(cause)
    return entry is not None and entry.blame == "user"


def _text(end: ev.TaskEnded | ev.ProcessEnded) -> str:
    lines = [f"{end.task} (attempt {end.task.attempt}): {end.cause}: {end.message}"]
    lines += [f"  | {line}" for line in end.tail.splitlines()[-TAIL_LINES:]]
    return "\n".join(without_control(line) for line in lines)
