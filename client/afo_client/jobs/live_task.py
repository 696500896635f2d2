"""Orders to the live tasks of a job: given to its Application Master, and waited for."""

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import cast

from msgspec import Struct

from afo.errors import AfoError, NotFound, PermissionDenied, UsageError, WaitTimeout
from afo.job import Role
from afo.process.bounded_command import LIMIT_S
from afo.rpc import messages as m
from afo.rpc.master import Master
from afo.site.config import Config, user_name
from afo_client.jobs.ref import JobRef
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for

_TASK = re.compile(r"(chief|worker|ps|evaluator)(?::(\d+))?")
#: Roles of which there is one, so that it needs no number.
_SINGLE = ("chief", "evaluator")
_POLL_S = 0.2
#: Beyond what a command may take: the order travels with a heartbeat, and so does its result.
_TRAVEL_S = 60.0


class TaskName(Struct, frozen=True):
    """`worker:0`."""

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role}:{self.index}"


def parse_task(text: str) -> TaskName:
    """One task. Raises `UsageError`."""
    found = _TASK.fullmatch(text)
    if found is None or (found[2] is None and found[1] not in _SINGLE):
        raise UsageError(f"{text!r} is no task; write role and number, e.g. worker:0, or chief or evaluator")
    return TaskName(cast(Role, found[1]), int(found[2] or 0))


def carry_out(
    config: Config, ref: JobRef, task: TaskName, kind: m.OrderKind, argv: tuple[str, ...] = ()
) -> m.OrderStatusReply:
    """Have a live task do something, and wait until it is done.

    Raises `PermissionDenied` for one who does not hold the job's secret or is not its owner, `NotFound` for a job that
    has ended or a task it does not have, `WaitTimeout`, and `AfoError` with the reason when the task could not do it.
    """
    with live_master(config, ref) as master:
        request = m.OrderRequest(user=user_name(), kind=kind, role=task.role, index=task.index, argv=argv)
        return _await_result(master, master.give_order(request), task)


@contextmanager
def live_master(config: Config, ref: JobRef) -> Iterator[Master]:
    """The Application Master of a job that runs. Raises `NotFound` for one that has ended, and `PermissionDenied`."""
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch:
        view = watch.look()
        if view.ended:
            raise NotFound(f"{ref.job_id} is {view.state}: none of its tasks runs any more")
        if watch.master is None:
            raise PermissionDenied(
                f"the secret of {ref.job_id} is not here: only who submitted it, from the machine it was submitted "
                "from, gives orders to its tasks"
            )
        yield watch.master


def _await_result(master: Master, order: int, task: TaskName) -> m.OrderStatusReply:
    deadline = time.monotonic() + LIMIT_S + _TRAVEL_S
    while (reply := master.order_status(order)).state in ("waiting", "running"):
        if time.monotonic() > deadline:
            raise WaitTimeout(f"{task} has not answered; `afo status` shows whether it lives")
        time.sleep(_POLL_S)
    if reply.state == "failed":
        raise AfoError(f"{task}: {reply.output.strip()}")
    return reply
