"""Costs of a job out of its event log, as its Application Master counts them: for one without a verdict. Pure."""

from msgspec import Struct

from afo.events import types as ev
from afo.rpc.messages import TaskId

_MIB_PER_GB = 1024


class Costs(Struct, frozen=True, kw_only=True):
    """Of all containers of a job; `train_seconds` from the first step to the last applied file."""

    core_hours: float = 0.0
    memory_gb_hours: float = 0.0
    train_seconds: float = 0.0


class JobCosts:
    """Takes events in their order, with their times."""

    def __init__(self) -> None:
        #: MiB and cores that a task's container was asked for; of those that run, since when.
        self._asked: dict[TaskId, tuple[int, int]] = {}
        self._since: dict[TaskId, float] = {}
        self._core_s = self._mib_s = 0.0
        self._train_began = self._train_ended = self._last = 0.0

    def take(self, event: ev.AnyEvent, time: float) -> None:
        """The next event."""
        self._last = time
        match event:
            case ev.ContainerRequested():
                self._asked[event.task] = event.memory, event.vcores
            case ev.ContainerRunning() | ev.TaskRegistered() if event.task in self._asked:
                self._since.setdefault(event.task, time)
            case ev.TaskEnded() | ev.ContainerEnded() if event.task in self._since:
                memory, vcores = self._asked.pop(event.task)
                seconds = max(0.0, time - self._since.pop(event.task))
                self._core_s, self._mib_s = self._core_s + seconds * vcores, self._mib_s + seconds * memory
            case ev.VariablesReady():
                self._train_began = self._train_began or time
            case ev.SplitDone():
                self._train_ended = time
            case _:
                return

    @property
    def costs(self) -> Costs:
        """Up to the last event."""
        running = [(max(0.0, self._last - since), *self._asked[task]) for task, since in self._since.items()]
        core_s = self._core_s + sum(seconds * vcores for seconds, _, vcores in running)
        mib_s = self._mib_s + sum(seconds * memory for seconds, memory, _ in running)
        return Costs(
            core_hours=core_s / 3600, memory_gb_hours=mib_s / _MIB_PER_GB / 3600,
            train_seconds=max(0.0, self._train_ended - self._train_began),
        )  # fmt: skip
