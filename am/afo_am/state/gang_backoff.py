"""Gang back-off: how long a job waits for its gang, and how often it gave its containers back. Part of the state."""

import zlib
from dataclasses import dataclass

from afo.events import types as ev
from afo.failures.causes import WAITS

#: Each release in a row makes the next patience so many times as long, and the pause after it.
_LONGER_PATIENCE, _LONGER_PAUSE = 1.5, 2.0
#: The first pause as a part of `timeouts.gang`: the others take what was given back long before it is over.
_PAUSE = 0.1


def jitter(words: str) -> float:
    """From 0 to 1, by the words alone: not everybody comes back at once, and a restarted AM computes the same."""
    return zlib.crc32(words.encode()) / 2**32


@dataclass
class GangBackoff:
    """What the journal says about the wait for the gang; part of the job's state. Wall clock times."""

    #: Releases in a row; 0 from the start of a generation on.
    releases: int = 0
    #: When a container last came or was lost, or the pause after a release is over.
    since: float = 0.0
    #: When the wait began that led to the first release in a row; 0 where there was none.
    begun: float = 0.0
    #: Nothing is asked for before.
    ask_at: float = 0.0
    job_id: str = ""
    am_attempt: int = 0

    def take(self, event: ev.AnyEvent, time: float) -> None:
        """Follow the events."""
        match event:
            case ev.JobStarted():
                self.job_id, self.since = event.job_id, time
            case ev.GangReleased():
                self.begun = self.begun or self.since
                self.releases += 1
                self.since = self.ask_at = time + event.pause_s
            case ev.GenerationStarted():
                self.releases, self.begun = 0, 0.0
            case ev.AmStarted() if event.am_attempt > self.am_attempt:
                self.am_attempt = event.am_attempt
                self._note_change(time)
            case ev.TaskEnded() if event.cause in WAITS:
                pass
            case ev.ContainerRunning() | ev.TaskRegistered() | ev.TaskEnded() | ev.GenerationEnded():
                self._note_change(time)
            case _:
                pass

    def _note_change(self, time: float) -> None:
        self.since = max(self.since, time)

    def limit(self, gang: float) -> float:
        """Seconds without news until the next release, out of `timeouts.gang`; no two jobs have the same."""
        return float(gang) * _LONGER_PATIENCE**self.releases * (1 + self._jitter("patience") / 2)

    def pause(self, gang: float) -> float:
        """Seconds between the next release and the requests after it."""
        pause = gang * _PAUSE * _LONGER_PAUSE**self.releases * (0.5 + self._jitter("pause"))
        return round(min(float(gang), pause), 3)

    def _jitter(self, purpose: str) -> float:
        return jitter(f"{self.job_id} {purpose} {self.releases}")
