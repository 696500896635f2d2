"""The wait for containers, event by event: the sentence that `afo status` has from the Application Master. Pure."""

from afo.events import types as ev
from afo.formats.units import Duration


class WaitFold:
    """Takes a job's events in their order. `runtime` is where the job was submitted to, '' while that is unknown."""

    def __init__(self, runtime: str) -> None:
        self._runtime = runtime
        self._begun = self._over = False
        #: Role and index of the tasks that were asked for and have no container.
        self._asked: set[tuple[str, int]] = set()
        #: The master's newest words about them, and about a pause in which it asks for nothing.
        self._told = self._released = ""

    def take(self, event: ev.AnyEvent) -> None:
        """The next event; most are of no interest here."""
        match event:
            case ev.JobStarted():
                self._begun = True
            case ev.JobEnding():
                self._over = True
            case ev.ContainerRequested(task=task):
                self._asked.add((task.role, task.index))
                self._released = ""
            case ev.ContainersAwaited():
                self._told = event.message
            case ev.GangReleased():
                pause = Duration(max(1, round(event.pause_s)))
                self._released = f"gave its containers back so that other jobs can go on; asks again after {pause}"
            case ev.ContainerRunning() | ev.TaskRegistered():
                self._asked.discard((event.task.role, event.task.index))
                # Words about a wait that is over say nothing of the next one; those of a repeated request stay.
                self._told = self._told if self._asked else ""
            case ev.TaskEnded() | ev.TaskGivenUp():
                self._asked.discard((event.task.role, event.task.index))
            case _:
                return

    def sentence(self) -> str:
        """What the job waits for and, as far as it is known, why; '' where it waits for nothing."""
        if self._over:
            return ""
        if not self._begun:
            return (
                f"waiting for {'YARN' if self._runtime == 'yarn' else 'this machine'} to start its Application Master"
            )
        if self._released or not self._asked:
            return self._released
        number = len(self._asked)
        return self._told or f"waiting for {number} container{'s' if number > 1 else ''}"
