"""`afo explain`."""

import difflib
import time
from collections import Counter
from contextlib import closing

import click
import msgspec

from afo.errors import AfoError, UsageError
from afo.events.event_tail import EventTail
from afo.failures.causes import CAUSES, Cause
from afo.job import ROLES, Job
from afo.job.paths import check_job_id
from afo.rpc.messages import MasterStart
from afo.site.config import Config, load_config
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.explanation import Explanation, TaskEnd, budget_text, cause_fields, explain, known_cause
from afo_client.jobs.ref import find_job
from afo_client.jobs.restarts_text import restart_fields, restart_lines
from afo_client.jobs.summary import TAIL_LINES, master_text
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.submitted import submitted_config
from afo_client.terminal.console import attempt_text, iso, pluralize, print_json, print_result, table, without_control

#: Starts of the Application Master that are told.
MAX_MASTERS = 5


@click.command(
    help="Say why a job or its tasks ended, whose fault it was, and what to do; or what a CAUSE means. "
    "Left out: the job submitted last.",
    epilog=examples("afo explain", "afo explain application_1700000000000_0001", "afo explain memory_limit",
                    "afo explain --causes"),
)  # fmt: skip
@click.argument("what", metavar="[JOB|CAUSE]", required=False, type=JobType(causes=True))
@click.option("--causes", is_flag=True, help="List all causes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(what: str | None, causes: bool, as_json: bool) -> None:
    """Explain a job, a cause, or all causes; the exit code is 0 whatever it says."""
    if causes and what:
        raise UsageError(f"--causes lists all of them; leave {what!r} out, or --causes")
    if causes:
        _print_causes(as_json)
    elif what in CAUSES:
        _print_cause(CAUSES[what], as_json)
    else:
        _print_job(load_config(), _job_or_nothing(what), as_json)


def _job_or_nothing(what: str | None) -> str | None:
    """A job's id, or None for the last one. Raises `UsageError` naming the nearest cause."""
    try:
        return check_job_id(what) if what is not None else None
    except AfoError as error:
        near = difflib.get_close_matches(what or "", CAUSES, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "`afo explain --causes` lists them"
        raise UsageError(f"{what!r} is neither a job's id nor a cause; {hint}") from error


def _print_causes(as_json: bool) -> None:
    if as_json:
        print_json({"causes": [cause_fields(cause) for cause in CAUSES.values()]})
        return
    rows = [(cause.name, cause.blame, "yes" if cause.retried else "no", cause.summary) for cause in CAUSES.values()]
    print_result(table(("CAUSE", "FAULT OF", "RETRIED", ""), rows))


def _print_cause(cause: Cause, as_json: bool) -> None:
    if as_json:
        print_json(cause_fields(cause))
    else:
        print_result("\n".join((f"{cause.name}: {cause.summary}", *_lines(cause, budget_text(cause)))))


def _lines(cause: Cause, budget: str) -> tuple[str, ...]:
    return f"fault of: {cause.blame}", f"restart: {budget}", f"what to do: {cause.advice}"


def _print_job(config: Config, named: str | None, as_json: bool) -> None:
    ref = find_job(config, named)
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch:
        found = explain(watch.look_without_runtime(), EventTail(ref.paths.events).poll())
    submitted = submitted_config(config, ref)
    job = submitted.job if submitted else None
    if as_json:
        print_json(_fields(found, job))
    else:
        print_result("\n".join(_text(found, job)))


def _decisive(found: Explanation) -> Cause | None:
    """What ended the job; while it runs, what ended a task last."""
    name = found.cause or (found.evidence.cause if found.evidence else "")
    return known_cause(name) if found.state != "SUCCEEDED" else CAUSES["succeeded"]


def _budget(cause: Cause, found: Explanation, job: Job | None) -> str:
    role = next((role for role in ROLES if found.evidence and found.evidence.task.startswith(f"{role}:")), None)
    return budget_text(cause, role, job.restart.of(role) if job and role else None)


def _text(found: Explanation, job: Job | None) -> list[str]:
    cause = _decisive(found)
    lines = [f"{found.job_id} {found.state}" + (f": {found.cause}: {cause.summary}" if found.cause and cause else "")]
    lines += [without_control(line) for line in found.diagnostics.splitlines()[:10] if found.state != "SUCCEEDED"]
    if found.evidence:
        lines += _evidence_lines(found.evidence, "failed task" if found.decided else "last task that ended")
    if cause and found.state not in ("SUCCEEDED", "KILLED"):
        lines += _lines(cause, _budget(cause, found, job))
    if not found.ends and not cause:
        lines.append("no task has ended before its time")
    restarts = restart_lines(found.outages, found.downtime, time.time())
    notes = map(without_control, found.notes)
    return [*lines, *_master_lines(found.masters), *_ends_lines(found.ends), *restarts, *notes]


def _evidence_lines(end: TaskEnd, head: str) -> list[str]:
    tail = [f"  | {without_control(line)}" for line in end.tail.splitlines()[-TAIL_LINES:]]
    where = attempt_text(end.task, end.attempt, end.host)
    return [f"{head}: {where}: {end.cause}: {without_control(end.message)}", *tail]


def _master_lines(masters: tuple[MasterStart, ...]) -> list[str]:
    """The newest ones; what ended with it is a cause of its own among the ends."""
    lines = [f"the Application Master was lost {pluralize(len(masters), 'time')}:"] if masters else []
    return [*lines, *(f"  {master_text(master)}" for master in masters[-MAX_MASTERS:])]


def _ends_lines(ends: tuple[TaskEnd, ...]) -> list[str]:
    if not ends:
        return []
    several = Counter((end.task, end.cause) for end in ends)
    rows = [(task, cause, str(count)) for (task, cause), count in several.most_common()]
    return [f"{pluralize(len(ends), 'end')} of tasks before their time:", table(("TASK", "CAUSE", "TIMES"), rows)]


def _fields(found: Explanation, job: Job | None) -> dict[str, object]:
    cause = _decisive(found)
    words = {**cause_fields(cause), "budget": _budget(cause, found, job)} if cause else None
    ends = [{**msgspec.to_builtins(end), "time": iso(end.time)} for end in found.ends]
    evidence = ends[found.ends.index(found.evidence)] if found.evidence else None
    return {
        "application_id": found.job_id, "state": found.state, "cause": found.cause or None,
        "diagnostics": found.diagnostics, "explanation": words, "evidence": evidence, "ends": ends,
        "masters": [{**msgspec.to_builtins(master), "time": iso(master.time)} for master in found.masters],
        **restart_fields(found.outages, found.downtime, time.time()), "notes": list(found.notes),
    }  # fmt: skip
