"""Kill of a job: by its Application Master, and by force through the runtime where that does not help."""

import time
from collections.abc import Callable

from msgspec import structs

from afo.errors import AfoError, ClusterUnreachable, NotFound, WaitTimeout
from afo.events.types import JobFinished
from afo.rpc.messages import KillRequest
from afo.site.config import user_name
from afo.yarn.resource_manager import WAITING_STATES
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from afo_client.terminal.console import say

#: Seconds that the AM has to end its tasks (it gives them a grace to upload logs), that force has after it, and that
#: the runtime has to end what is left once there is a verdict.
GRACE_S = 45.0
FORCE_S = 60.0
GONE_S = 60.0
_POLL_S = 0.3


def end_job(watch: JobWatch, reason: str) -> JobView:
    """The job once it has ended, by this or by itself. Raises `WaitTimeout` if it does not end even by force."""
    view = watch.look()
    if view.ended:
        return view
    waited, asked = view.state in WAITING_STATES, False
    if waited:
        say(f"{watch.ref.job_id} waits for its Application Master; taken back from the cluster")
    elif asked := _ask_master(watch, reason):
        view = _await_end(watch, GRACE_S)
        if view.ended:
            _await_gone(watch)
            return view
        say(f"{watch.ref.job_id} has not ended within {GRACE_S:.0f} s; ending it by force")
    if not (waited or asked):  # else the AM's log has the reason
        _keep(lambda: watch.keep_reason(user_name(), reason))
    watch.kill()
    view = _await_end(watch, FORCE_S)
    if not view.ended:
        raise WaitTimeout(f"{watch.ref.job_id} is still {view.state} {FORCE_S:.0f} s after it was ended by force")
    watch.close_log()
    view = watch.look(ask_master=False)  # once more: of a log that was open the end could not be read
    if view.verdict is not None or view.state != "KILLED":
        return view
    words = f"killed by {user_name()} before it had an Application Master: {reason}" if waited else view.message
    verdict = _verdict(watch, view, words)
    kept = _keep(lambda: watch.keep_verdict(verdict))
    return watch.look() if kept else structs.replace(view, message=words)


def _verdict(watch: JobWatch, view: JobView, words: str) -> JobFinished:
    """What no Application Master is there to write, with the numbers that its log has."""
    spent = watch.costs() or view.costs  # a local job has no runtime that counts
    return JobFinished(
        state="KILLED", cause="killed_by_user", diagnostics=words, metrics=view.metrics, samples=view.samples,
        step=view.step, seconds=max(0.0, time.time() - view.submitted) if view.submitted else 0.0,
        core_hours=spent.core_hours, memory_gb_hours=spent.memory_gb_hours, restarts=view.restarts,
        train_seconds=view.costs.train_seconds,
    )  # fmt: skip


def _keep(write: Callable[[], bool]) -> bool:
    try:
        return write()
    except AfoError as error:  # another user's job, which an administrator may end
        say(f"the reason cannot be kept with the job: {error}")
        return False


def _await_gone(watch: JobWatch) -> None:
    """Wait until the runtime has ended it, too: an AM that dies behind its verdict is started once more."""
    deadline = time.monotonic() + GONE_S
    while not _is_gone(watch):
        if time.monotonic() > deadline:  # its `on_end` may take longer, and is not to be cut off
            say(f"{watch.ref.job_id} has its verdict, and its Application Master has not ended within {GONE_S:.0f} s")
            return
        time.sleep(_POLL_S)


def _is_gone(watch: JobWatch) -> bool:
    try:
        return watch.is_gone()
    except ClusterUnreachable:
        return False  # the job has its verdict, whoever restarts now


def _ask_master(watch: JobWatch, reason: str) -> bool:
    if watch.master is None:
        say("the job's secret is not here, so its Application Master cannot be asked; ending the job by force")
        return False
    try:
        watch.master.kill(KillRequest(user=user_name(), reason=reason))
    except (ClusterUnreachable, NotFound) as error:
        say(f"the Application Master cannot be asked, ending the job by force: {error}")
        return False
    return True


def _await_end(watch: JobWatch, patience_s: float) -> JobView:
    deadline = time.monotonic() + patience_s
    while True:
        view = watch.look()
        if view.ended or time.monotonic() > deadline:
            return view
        time.sleep(_POLL_S)
