"""Runner of a task's TensorFlow process through its starts: one at a time, each of one generation."""

import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs

from afo.errors import AfoError, NotFound
from afo.failures.classify import classify_process, classify_start
from afo.process.memory import memory_kills
from afo.protocol.child_config import ChildConfig
from afo.protocol.train_task import Progress
from afo.rpc.messages import Directive, TaskId
from afo_child.process import launch
from afo_child.process.launch import Way
from afo_child.process.output import Output, ProgressReader
from afo_child.process.task_process import TaskProcess

#: Pause before a start in place, in seconds; random so that not all workers come back in the same instant.
_BACK_OFF_S = (1.0, 2.0)
_LOG = logging.getLogger(__name__)


class CannotStart(AfoError, RuntimeError):
    """The process could not be started; `cause` is a name of `afo.failures.causes.CAUSES`."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class TaskRunner:
    """Belongs to the main thread, but for `terminate` and `kill`. `on_exit` is called from another thread."""

    def __init__(
        self, config: ChildConfig, task: TaskId, output: Output, work_dir: Path,
        inherited: Mapping[str, str], on_exit: Callable[[], None],
    ) -> None:  # fmt: skip
        self._config, self._task, self._output = config, task, output
        self._work_dir, self._inherited, self._on_exit = work_dir, inherited, on_exit
        self._place = self._place_of_work_dir()
        self._process: TaskProcess | None = None
        self._progress = ProgressReader()
        self._memory_kills = 0
        self._start_after = 0.0
        #: Generation of the process that runs, or of the last one.
        self.generation = -1
        #: Exit code or -signal of a process that ended by itself; None once another start is wanted.
        self.code: int | None = None
        #: Why it ended, a name of `afo.failures.causes.CAUSES`.
        self.cause = ""
        #: When that was taken up, by the monotonic clock.
        self.ended_at = 0.0
        #: Starts in place in this generation.
        self.restarts = 0
        #: What the process was given; empty before the first start.
        self.environment: dict[str, str] = {}

    @property
    def has_work_dir(self) -> bool:
        """Whether the container's directory is still there; nothing works without it.

        It has to be the same one: a process that makes a directory for what it writes makes those above it as well.
        """
        return self._place_of_work_dir() == self._place

    @property
    def pid(self) -> int | None:
        """Process id, None when none runs."""
        return self._process.pid if self._process else None

    @property
    def over(self) -> bool:
        """Whether the process ended by itself and `note_end` has not taken that up."""
        return self._process is not None and not self._process.alive

    @property
    def progress(self) -> Progress | None:
        """The newest progress of the present process, or of the last one. Of a program it is known that it runs.

        It says which generation it is of: where the process does not, the one that it was started in.
        """
        if self._config.job.program:
            return Progress(phase="running") if self._process else None
        newest = self._progress.newest
        if newest is None or newest.generation:
            return newest
        return structs.replace(newest, generation=self.generation)

    @property
    def backing_off(self) -> bool:
        """Whether the pause before a start in place goes on."""
        return self.pause_s > 0

    @property
    def pause_s(self) -> float:
        """What is left of that pause."""
        return max(0.0, self._start_after - time.monotonic())

    def start(self, directive: Directive, way: Way) -> None:
        """Start the process of the directive's generation. Raises `CannotStart`."""
        if directive.generation != self.generation:
            self.restarts = 0
        self.generation, self.code = directive.generation, None
        self._progress = ProgressReader()
        self._output.begin_process()
        self._memory_kills = memory_kills()
        try:
            self._process = self._start_process(directive, way)
        except NotFound as error:
            raise CannotStart("preload_missing", str(error)) from error
        except OSError as error:
            raise CannotStart(classify_start(error), f"cannot start the process of {self._task}: {error}") from error
        _LOG.info("process %d of generation %d started", self._process.pid, self.generation)

    def stop(self, grace_s: float) -> None:
        """End the process, if there is one, with all it started."""
        if self._process is not None:
            code = self._process.stop(grace_s)
            self._process = None
            _LOG.info("process of generation %d stopped (%d)", self.generation, code)

    def note_end(self) -> None:
        """Take up what became of a process that ended by itself."""
        if self._process is not None and self.over:
            self.ended_at = time.monotonic()
            self.code = self._process.finish()
            self._process = None
            _LOG.info("process of generation %d ended with %d", self.generation, self.code)
            if self._progress.malformed:
                _LOG.warning("%d malformed lines of progress", self._progress.malformed)
            self.cause = self._cause_of(self.code)

    def back_off(self) -> None:
        """Count a start in place and begin the pause before it."""
        self.code = None
        self.restarts += 1
        self._start_after = time.monotonic() + random.uniform(*_BACK_OFF_S)

    def _cause_of(self, code: int) -> str:
        if not self.has_work_dir:
            return "work_dir_lost"
        killed, own = memory_kills() - self._memory_kills, bool(self._config.job.program)
        return classify_process(code, self._output.error_text, killed, own_program=own)

    def _place_of_work_dir(self) -> tuple[int, int] | None:
        try:
            found = self._work_dir.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def terminate(self) -> None:
        """SIGTERM, from any thread."""
        if (process := self._process) is not None:
            process.terminate()

    def kill(self) -> None:
        """SIGKILL, from any thread."""
        if (process := self._process) is not None:
            process.kill()

    def _start_process(self, directive: Directive, way: Way) -> TaskProcess:
        self.environment = launch.environment(self._config, self._task, directive, way, self._inherited, self._work_dir)
        reader, writer = os.pipe()
        try:
            command = launch.command(self._config, self._task, directive, way, self._work_dir, writer)
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        return TaskProcess(
            command, self.environment, self._work_dir, (reader, writer),
            (self._output.stdout, self._output.stderr, self._progress.feed), self._on_exit,
        )  # fmt: skip
