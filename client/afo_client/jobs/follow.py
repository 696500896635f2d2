"""Follower of a job to its end on the status line; Ctrl-C asks on a terminal and detaches elsewhere."""

import signal
import sys
import time
from collections.abc import Callable

from afo.errors import AfoError, ClusterUnreachable, WaitTimeout
from afo_client.jobs.failure_feed import FailureNews
from afo_client.jobs.kill import end_job
from afo_client.jobs.status_line import LiveLine
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from afo_client.terminal.console import say

#: Exit code for each final state.
EXIT_OF = {"SUCCEEDED": 0, "FAILED": 1, "KILLED": 8}
POLL_S = 1.0
#: Seconds without any answer of the cluster after which following gives up.
PATIENCE_S = 120.0


#: Does it mean to kill?
_ANSWERS = {"": False, "d": False, "detach": False, "k": True, "kill": True}


class Detached(AfoError):
    """The user left; the job goes on."""

    exit_code = 130


def follow(watch: JobWatch, *, timeout_s: float | None = None, kill_on_interrupt: bool = False) -> JobView:
    """The job once it has ended. Raises `WaitTimeout`, `Detached` (after Ctrl-C), `ClusterUnreachable`."""
    line, failures = LiveLine(), FailureNews(watch.ref.paths.events)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def show(view: JobView) -> None:
        for text in failures.news(view):
            line.clear()
            say(text)
        line.show(view)

    try:
        return await_end(watch, deadline, show)
    except KeyboardInterrupt:
        line.clear()
        return answer_interrupt(watch, kill_on_interrupt)
    except SystemExit:  # SIGTERM
        line.clear()
        say(_detached_text(watch.ref.job_id))
        raise
    finally:
        line.clear()


def answer_interrupt(watch: JobWatch, kill: bool) -> JobView:
    """Ctrl-C: end the job if `kill` or the user says so, else raise `Detached`."""
    job_id = watch.ref.job_id
    if not kill and not _wants_kill(job_id):
        raise Detached(_detached_text(job_id))
    say(f"ending {job_id}; Ctrl-C again leaves at once")
    return end_job(watch, "Ctrl-C")


def _detached_text(job_id: str) -> str:
    return f"detached; {job_id} goes on: `afo wait {job_id}` follows it again, `afo kill {job_id}` ends it"


class DeferredInterrupt:
    """A block that Ctrl-C does not break: what is begun in it is finished, and then `came` is true."""

    came = False

    def __enter__(self) -> "DeferredInterrupt":
        self._before = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _remember(self, _number: int, _frame: object) -> None:
        self.came = True


def await_end(watch: JobWatch, deadline: float | None, show: Callable[[JobView], None] = lambda view: None) -> JobView:
    """The job once it has ended; `show` sees it every second before. `deadline` is of the monotonic clock.

    Raises `WaitTimeout`, and `ClusterUnreachable` after `PATIENCE_S` without an answer.
    """
    silent_since = None
    while True:
        try:
            view, silent_since = watch.look(), None
            if view.ended:
                return view
            show(view)
        except ClusterUnreachable:
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > PATIENCE_S:
                raise
        left = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
        if left <= 0:
            raise WaitTimeout(f"{watch.ref.job_id} has not ended in the time given; it goes on")
        time.sleep(left)


def _wants_kill(job_id: str) -> bool:
    """Ask on a terminal: kill or detach."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    # A second Ctrl-C leaves at once, by the kernel: a Python handler would have to wait for the read to return.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        while True:
            say(f"{job_id}: [d]etach (default) or [k]ill? ", newline=False)
            answer = sys.stdin.readline().strip().lower()
            if answer in _ANSWERS:
                return _ANSWERS[answer]
    finally:
        signal.signal(signal.SIGINT, before)
