"""What the harness needs of a training that runs on this machine."""

from typing import Literal, Protocol

import psutil

from side_by_side.outcome import Seen

Task = tuple[str, int]
Name = Literal["coordinator", "monitored", "afo"]

#: Every training has these.
TASKS: tuple[Task, ...] = (("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1))
#: Between two checkpoints of every contender.
CHECKPOINT_S = 3.0


class Contender(Protocol):
    """A chief, two parameter servers and two workers."""

    def tend(self) -> None:
        """Look at it, and do what its supervisor does; to be called a few times a second."""

    def seen(self) -> list[Seen]:
        """The steps so far."""

    def saved(self) -> bool:
        """It has written a checkpoint."""

    def trainers(self) -> set[int]:
        """The processes that should make steps now."""

    def process(self, task: Task) -> psutil.Process:
        """The TensorFlow process of a task."""

    def kill(self, task: Task, *, moved: bool) -> None:
        """SIGKILL; `moved`: what comes back listens on another port, if it listens."""

    def story(self) -> tuple[dict[str, int], str]:
        """How often each task was started again, and the last error that one ended with ('' for none)."""

    def gave_up(self) -> bool:
        """Tasks ended and are not started again."""

    def close(self) -> None:
        """End it; none of its processes is left."""
