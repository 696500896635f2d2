"""Feed of failures while the job goes on: a person may want to end it, or make room, before it tries again.

What is of the job's own making is told each time, with the last lines of its stderr; what is the cluster's, the first
time of each cause, for a night brings many.
"""

from afo.events import event_log
from afo.events import types as ev
from afo.events.event_tail import EventTail
from afo.failures.causes import CAUSES, Cause
from afo_client.jobs.explanation import TaskHosts
from afo_client.jobs.summary import TAIL_LINES
from afo_client.jobs.view import JobView
from afo_client.terminal.console import attempt_text, without_control


class FailureNews:
    """Reads the event log when the job has restarted something, and only then."""

    def __init__(self, events_dir: str) -> None:
        self._events = EventTail(events_dir)
        self._hosts = TaskHosts()
        self._restarts = 0
        #: Causes that were told and are the fault of others than the user.
        self._told: set[str] = set()

    def news(self, view: JobView) -> list[str]:
        """What has failed since the last call, each with what to do."""
        if view.restarts <= self._restarts:
            return []
        self._restarts = view.restarts
        told = []
        for record in self._events.poll():
            self._hosts.take(record)
            match record:
                case event_log.Record(event=(ev.TaskEnded() | ev.ProcessEnded()) as end):
                    cause = CAUSES.get(end.cause)
                    if cause is not None and self._is_news(cause):
                        told.append(_text(end, self._hosts.of(end.task), cause))
        return told

    def _is_news(self, cause: Cause) -> bool:
        if cause.blame in ("user", "nobody"):
            return cause.blame == "user"
        new = cause.name not in self._told
        self._told.add(cause.name)
        return new


def _text(end: ev.TaskEnded | ev.ProcessEnded, host: str, cause: Cause) -> str:
    lines = [f"{attempt_text(str(end.task), end.task.attempt, host)}: {end.cause}: {end.message}"]
    if cause.blame == "user":
        lines += [f"  | {line}" for line in end.tail.splitlines()[-TAIL_LINES:]]
    return "\n".join(without_control(line) for line in [*lines, f"  what to do: {cause.advice}"])
