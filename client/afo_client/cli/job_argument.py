"""Arguments that name a job or a task of one, as a shell completes them; and what a verb that ends things means."""

import sys

import click
import msgspec
from click.shell_completion import CompletionItem

from afo.errors import AfoError, UsageError
from afo.failures.causes import CAUSES
from afo.formats.decoding import UNDECODABLE
from afo.job import ROLES
from afo.site.config import load_config
from afo.site.user_state import UserState
from afo_client.jobs.task_logs import is_task

#: Jobs that a shell offers: those submitted last by this user from this machine, newest first.
_OFFERED = 30


class _Role(msgspec.Struct):
    instances: int | dict[str, int] = 1

    @property
    def count(self) -> int:
        return self.instances if isinstance(self.instances, int) else self.instances.get("max", 1)


class _Job(msgspec.Struct):
    name: str = ""
    roles: dict[str, _Role] = {}


class _Submission(msgspec.Struct):
    """What completion needs of a kept submission, whatever version of afo wrote it."""

    job: _Job = msgspec.field(default_factory=_Job)


class JobType(click.types.StringParamType):
    """A job's id. `tasks` and `causes` say what else may stand in its place."""

    name = "job"

    def __init__(self, *, tasks: bool = False, causes: bool = False) -> None:
        self._tasks, self._causes = tasks, causes

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Jobs by id, with their names; the answer is this machine's alone, so that it comes at once."""
        found = _jobs(incomplete)
        if self._tasks:
            found += _tasks(None, incomplete)
        if self._causes:
            found += [CompletionItem(cause.name, help=cause.summary) for cause in CAUSES.values()
                      if cause.name.startswith(incomplete)]  # fmt: skip
        return found


class TaskType(click.types.StringParamType):
    """A task, as `worker:0`, of the job in the argument `job` before it or of the last one."""

    name = "task"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """All tasks of the job as it was submitted."""
        named = ctx.params.get("job")
        return _tasks(named if named and not is_task(named) else None, incomplete)


def confirm_action(what: str, *, named: bool, yes: bool) -> None:
    """Returns if `what`, e.g. `kill local_1_0001`, is meant: it was named, or the user says so on a terminal.

    Raises `UsageError` elsewhere: a script that ends whatever was submitted last ends the wrong job one day.
    """
    if named or yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"this would {what}, which was not named; name it, or mean the last job with --yes")
    click.confirm(f"{what}?", abort=True, err=True)


def job_and_task(job: str | None, task: str | None) -> tuple[str | None, str]:
    """`JOB TASK`, or `TASK` alone for the last job. Raises `UsageError` where there is no task."""
    if task is None:
        job, task = None, job
    if task is None or (job is None and not is_task(task)):
        raise UsageError("no task was named; write e.g. worker:0, before it the job if it is not the last one")
    return job, task


def _state() -> UserState | None:
    try:
        return UserState(load_config().state_dir)
    except AfoError:  # a wrong site file: every verb says so, while a line is being typed nobody can read it
        return None


def _jobs(incomplete: str) -> list[CompletionItem]:
    state = _state()
    ids = [job_id for job_id in state.submissions() if job_id.startswith(incomplete)] if state else []
    return [CompletionItem(job_id, help=_submission(state, job_id).name) for job_id in ids[:_OFFERED]]


def _tasks(named: str | None, incomplete: str) -> list[CompletionItem]:
    state = _state()
    job_id = named or (state.last_job() if state else None)
    if state is None or job_id is None:
        return []
    roles = _submission(state, job_id).roles
    names = [f"{role}:{index}" for role in ROLES if role in roles for index in range(roles[role].count)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _submission(state: UserState | None, job_id: str) -> _Job:
    try:
        kept = state.submission(job_id) if state else None
        return msgspec.json.decode(kept, type=_Submission).job if kept else _Job()
    except (*UNDECODABLE, AfoError):  # of another version, or no job's id: nothing is offered
        return _Job()
