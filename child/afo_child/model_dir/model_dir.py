"""`AFO_MODEL_DIR` of a program: filled before each start, saved while the program runs and when it has ended.

The copy lies where a model's checkpoints would. The chief's directory is saved; workers and the evaluator get what was
saved, the evaluator again and again.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Literal

from afo.errors import AfoError
from afo.job import Job
from afo.rpc.messages import TaskId
from afo_child.model_dir.mirror import Mirror

#: Pause between looks at what has changed.
EVERY_S = 10.0
#: Tries of a save that a restart or a success waits for, a second more apart each time.
_TRIES = 4
#: After so long without the AM it may have put another task in the place of this one, which saves from then on; the AM
#: waits twice as long with that (`afo_am.policy.time_limits.SILENCE_S`).
_SILENCE_S = 15.0
_LOG = logging.getLogger(__name__)

Use = Literal["saves", "follows", "starts_with"]


def use_of(job: Job, task: TaskId) -> Use:
    """What a task does with its directory."""
    if job.program and (task.role, task.index) == job.chief:
        return "saves"
    return "follows" if task.role == "evaluator" else "starts_with"


class ModelDir(threading.Thread):
    """Copies in a thread of its own, so that heartbeats go on. All methods are for the main thread.

    `use`: what is done beside filling the directory at a start. `done` is called when `busy` is over.
    """

    def __init__(self, mirror: Mirror, use: Use, done: Callable[[], None], every_s: float = EVERY_S) -> None:
        super().__init__(name="model-dir", daemon=True)
        self._mirror, self._use, self._done, self._every_s = mirror, use, done, every_s
        self._heard = time.monotonic()
        self._wishes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._running = False
        #: A copy is under way that has to be waited for.
        self.busy = False
        #: Why the last such copy failed; '' if it did not.
        self.failure = ""

    def fill(self) -> None:
        """Before a start: make the directory what was saved last."""
        self._wish(self._mirror.restore)

    def note_contact(self) -> None:
        """The AM still counts on this task."""
        self._heard = time.monotonic()

    def note_start(self) -> None:
        """The program runs."""
        self._running = True

    def note_end(self) -> None:
        """The program does not run any more: save the last of it."""
        if self._running and self._use == "saves":
            self._wish(self._save_all)
        self._running = False

    def finish(self, timeout_s: float) -> None:
        """End, after what is under way or `timeout_s`."""
        self._wishes.put(None)
        if self.is_alive():
            self.join(timeout_s)

    def run(self) -> None:
        """Until `finish`."""
        while True:
            try:
                wish = self._wishes.get(timeout=self._every_s)
            except queue.Empty:
                self._look()
                continue
            if wish is None:
                return
            self.failure = _failure(wish)
            self.busy = False
            self._done()

    def _wish(self, copy: Callable[[], None]) -> None:
        self.busy, self.failure = True, ""
        self._wishes.put(copy)

    def _look(self) -> None:
        if not self._running:
            return
        if self._use == "saves" and self._counts():
            _failure(self._mirror.save)
        elif self._use == "follows":
            _failure(self._mirror.restore)

    def _counts(self) -> bool:
        return time.monotonic() - self._heard < _SILENCE_S

    def _save_all(self) -> None:
        why = "the Application Master is silent, or files change though the program has ended"
        for attempt in range(_TRIES):
            time.sleep(attempt)
            try:
                if self._counts() and self._mirror.save():
                    return
            except AfoError as error:
                why = str(error)
        raise AfoError(f"AFO_MODEL_DIR could not be saved in {_TRIES} tries: {why}")


def _failure(copy: Callable[[], object]) -> str:
    """Do it; why it failed, '' if it did not."""
    try:
        copy()
    except (AfoError, OSError) as error:
        _LOG.warning("the model directory could not be copied: %s", error)
        return str(error)
    return ""
