"""The losses of a job's Application Master, each with the tasks that ended with it. Pure."""

from dataclasses import dataclass

from afo.events import types as ev
from afo.failures.causes import APPLICATION_ATTEMPT_LOST
from afo.rpc.messages import MasterStart


@dataclass
class MasterStarts:
    """Takes the events of a job in their order."""

    #: The newest, None while none was lost.
    last: MasterStart | None = None
    _host: str = ""
    #: Tasks that ended with the container of the one before, which is told before the next one's beginning.
    _ended: int = 0

    def take(self, event: ev.AnyEvent, time: float) -> MasterStart | None:
        """The start that this event of wall clock `time` is, if it follows a loss."""
        if isinstance(event, ev.TaskEnded):
            self._ended += event.cause == APPLICATION_ATTEMPT_LOST
        if not isinstance(event, ev.AmStarted):
            return None
        again = event.am_attempt > 1 or event.incarnation > 1
        if again:
            self.last = MasterStart(
                number=self.last.number + 1 if self.last else 1, attempt=event.am_attempt, host=event.host,
                was_on=self._host, time=time, tasks=self._ended,
                why=", ".join(filter(None, (event.waited_for, event.previous_end))),
            )  # fmt: skip
        self._host, self._ended = event.host, 0
        return self.last if again else None
