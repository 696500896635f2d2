"""Summary of a job that has ended (and, as far as it is known, of one that has not)."""

import msgspec

from afo.errors import AfoError
from afo.failures.causes import CAUSES
from afo.formats import json_file
from afo.protocol.am_config import AmConfig
from afo.rpc.messages import MasterStart
from afo_client.jobs.ref import JobRef
from afo_client.jobs.view import Failure, JobView, TaskView
from afo_client.terminal.console import attempt_text, iso, pluralize, span_text, wait_text, without_control
from afo_client.terminal.ratio import ratio

#: Lines of the first failing task that are shown at once.
TAIL_LINES = 20
#: Fields of the JSON object that are null while a job runs.
_OF_ENDED_JOBS = ("seconds", "train_seconds", "core_hours", "memory_gb_hours", "restarts", "bad_records")


def places(ref: JobRef) -> dict[str, str]:
    """URLs of what the job leaves behind."""
    checkpoints = export = ""
    try:
        job = json_file.fetch(ref.paths.job, AmConfig).job
        checkpoints, export = job.checkpoint.dir, job.export.dir
    except AfoError:
        pass  # an AM that never started wrote no job.json: the places are those that need no job file
    return {
        "model": export or ref.paths.export,
        "checkpoints": ref.paths.checkpoints(checkpoints),
        "summaries": ref.paths.summaries,
        "logs": ref.paths.logs,
        "events": ref.paths.events,
    }


def summary_text(view: JobView, where: dict[str, str]) -> str:
    """Some lines for a person."""
    lines = [f"{view.job_id} {view.state}", *_cause_lines(view)]
    if view.verdict is not None:
        lines += _numbers(view)
    if view.master is not None:
        times = pluralize(view.master.number, "time")
        lines.append(f"the Application Master was lost {times}, last at {master_text(view.master)}")
    lines += [without_control(note) for note in view.notes]
    # Who looks for a model where none was written finds the one of another day.
    shown = {name: url for name, url in where.items() if name != "model" or view.state == "SUCCEEDED"}
    width = max(map(len, shown), default=0)
    lines += [f"  {name.ljust(width)}  {url}" for name, url in shown.items()]
    return "\n".join(lines)


def master_text(start: MasterStart) -> str:
    """When and where another Application Master went on, and what ended with the one before."""
    before = f", before on {start.was_on}" if start.was_on not in ("", start.host) else ""
    tasks = f"; {pluralize(start.tasks, 'task')} ended with the one before" if start.tasks else ""
    why = f"; the one before: {start.why}" if start.why else ""
    return without_control(f"{iso(start.time)}: attempt {start.attempt} on {start.host} goes on{before}{tasks}{why}")


def _cause_lines(view: JobView) -> list[str]:
    if not view.ended or view.state == "SUCCEEDED":
        return []
    cause = CAUSES.get(view.cause)
    lines = [f"cause: {cause.name}: {cause.summary}"] if cause else []
    # Who killed a job needs none.
    lines += [f"advice: {cause.advice}"] if cause and view.state == "FAILED" else []
    lines += [f"diagnostics: {without_control(line)}" for line in view.message.splitlines()[:10]]
    return lines + (_failure_lines(view.failure) if view.failure else [])


def _failure_lines(failure: Failure) -> list[str]:
    tail = [f"  | {without_control(line)}" for line in failure.tail.splitlines()[-TAIL_LINES:]]
    head = f"failed task: {attempt_text(str(failure.task), failure.task.attempt, failure.host)}"
    return [f"{head}: {without_control(failure.message)}", *tail]


def _numbers(view: JobView) -> list[str]:
    verdict = view.verdict
    if verdict is None:
        return []
    # It never came to that, or it ran a program, whose steps nobody counts. A clock that stepped back leaves the rest.
    if not (verdict.train_seconds or verdict.samples or verdict.metrics):
        return [f"{span_text(verdict.seconds)} in all, {pluralize(verdict.restarts, 'restart')}"]
    lines = [
        f"{verdict.samples:,} samples, {_steps(verdict.step, view.warm_steps)}; {span_text(verdict.seconds)} in all, "
        + (f"{span_text(verdict.train_seconds)} training" if verdict.train_seconds else "training for an unknown time"),
        (f"{_rate(view):,.0f} samples/s, " if verdict.train_seconds else "")
        + f"{wait_text(verdict.input_wait, verdict.input_bound)}, "
        f"{pluralize(verdict.restarts, 'restart')}",
    ]
    if verdict.bad_records:
        lines.append(f"{pluralize(verdict.bad_records, 'bad record')} skipped; the tasks' logs name them")
    if verdict.metrics:
        lines.append(", ".join(f"{name} {value:.6g}" for name, value in verdict.metrics.items()))
    if verdict.samples:
        millions = ratio(verdict.samples, 1e6)
        cores, memory = ratio(verdict.core_hours, millions), ratio(verdict.memory_gb_hours, millions)
        lines.append(f"{cores:.3g} core-hours and {memory:.3g} GB-hours per million samples")
    return lines


def _steps(step: int, before: int) -> str:
    """The job's own steps, as the samples are its own, beside those of the model that it began with."""
    if not 0 < before <= step:  # it began anew, or ended before its model was there
        return f"{step:,} steps"
    return f"{step - before:,} steps ({step:,} with the earlier model's)"


def _rate(view: JobView) -> float:
    """Samples per second: now, or while an ended job trained."""
    verdict = view.verdict
    if verdict is None:
        return view.samples_per_s
    return ratio(verdict.samples, verdict.train_seconds)


def summary_json(view: JobView, where: dict[str, str], exit_code: int) -> dict[str, object]:
    """The object of `submit --wait --json`, `wait --json` and `status --json`."""
    return {
        "application_id": view.job_id,
        "name": view.name,
        "user": view.user,
        "queue": view.queue,
        "state": view.state,
        "final": view.ended,
        "diagnostics": view.message,
        "metrics": view.metrics,
        "notes": list(view.notes),
        "step": view.step,
        "samples": view.samples,
        "samples_per_s": _rate(view),
        "input_wait": view.verdict.input_wait if view.verdict else view.input_wait,
        "input_bound": view.verdict.input_bound if view.verdict else view.input_bound,
        "loss": view.loss,
        "staleness": view.staleness,
        "progress": view.progress,
        "seconds_left": None if view.ended else view.seconds_left,
        "cause": view.cause or None,
        **{name: getattr(view.verdict, name, None) for name in _OF_ENDED_JOBS},
        "submitted": iso(view.submitted),
        "generation": view.generation,
        "master_lost": {**msgspec.to_builtins(view.master), "time": iso(view.master.time)} if view.master else None,
        "splits": {"done": view.splits_done, "total": view.splits_total},
        "tasks": [_task_json(task) for task in view.tasks],
        "failure": msgspec.to_builtins(view.failure),
        "places": where,
        "exit_code": exit_code,
    }


def _task_json(task: TaskView) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(task)
    fields["attempt"] = task.task.attempt
    return {**fields, "task": str(task.task)}
