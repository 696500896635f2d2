"""Advice: what a job's measurements suggest to change in its job file. Pure."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from afo.failures.causes import CAUSES
from afo.protocol.input_wait import NOTABLE, InputBound
from afo_history_server.model.job_history import Attempt, JobHistory
from afo_history_server.model.text import number, share, size, span

_MIB = 1 << 20
#: A container is larger than its need above this multiple of the peak, and tight above this share of what it asked.
_ROOMY, _TIGHT = 2.0, 0.9
#: What a container is advised to have above its peak, and the step in which memory is asked.
_RESERVE, _STEP_MIB = 1.25, 256
#: Shares of the time from which on something is worth a word.
_SAVING, _WAITING = 0.1, 0.2
#: A setting that saves beside `checkpoint.every`.
_EVAL = "train.eval_every"
#: Of its cores' time, that a task used less of; and seconds below which nothing is said of it.
_IDLE_CORES, _SETTLED_S = 0.3, 300.0
_MANY = 3

_INPUT: dict[InputBound | None, tuple[str, str]] = {
    "files": (
        ", mostly for a file to be leased and copied here",
        "Fewer, larger files: each is leased, and copied here, before it is read. More workers do so side by side. "
        "Else it is the storage.",
    ),
    "reading": (
        ", mostly while records were taken out of files",
        "Files without compression are read quickest, and those without features that the schema leaves out. More "
        "workers share the reading, more parameter servers do not.",
    ),
    "preparing": (
        ", mostly while batches were parsed and hashed",
        "Give the workers more `vcores`, which prepare ahead; have the schema name fewer features; more workers share "
        "it, more parameter servers do not.",
    ),
    None: ("", "Give the workers more `vcores`, which read and parse ahead."),
}


class Advice(Struct, frozen=True):
    """One thing: what was measured, and what to do about it."""

    subject: str
    measured: str
    change: str


def advice(job: JobHistory) -> tuple[Advice, ...]:
    """Of a job that has ended or goes on, the most telling first."""
    return (*_restarts(job), *_input(job), *_memory(job), *_cores(job), *_saving(job), *_waiting(job), *_records(job))


def _input(job: JobHistory) -> Iterator[Advice]:
    if job.input_wait is not None and job.input_wait >= NOTABLE:
        where, change = _INPUT[job.input_bound]
        yield Advice("input", f"The workers waited for input {share(job.input_wait)} of the time{where}.", change)


def _memory(job: JobHistory) -> Iterator[Advice]:
    for role, attempts in _by_role(job):
        measured = [attempt for attempt in attempts if attempt.peak_rss and attempt.memory]
        if not measured:
            continue
        top = max(measured, key=lambda attempt: attempt.peak_rss / attempt.memory)
        asked, used = top.memory, top.peak_rss / _MIB
        words = f"`roles.{role}.memory`: {size(asked * _MIB)} asked, at most {size(top.peak_rss)} used ({top.name})."
        enough = math.ceil(used * _RESERVE / _STEP_MIB) * _STEP_MIB
        if used > asked * _TIGHT:
            yield Advice("memory", words, f"Ask for {size(enough * _MIB)}: YARN kills what is above its limit.")
        elif used * _ROOMY < asked and enough < asked:
            yield Advice("memory", words, f"{size(enough * _MIB)} would do, and be granted sooner.")


def _cores(job: JobHistory) -> Iterator[Advice]:
    for role, attempts in _by_role(job):
        settled = [
            attempt
            for attempt in attempts
            if attempt.cpu_s and attempt.vcores > 1 and _run_seconds(attempt) >= _SETTLED_S
        ]
        asked = sum(attempt.vcores * _run_seconds(attempt) for attempt in settled)
        used = sum(attempt.cpu_s for attempt in settled)
        if settled and used < asked * _IDLE_CORES:
            yield Advice(
                "cores", f"`roles.{role}.vcores`: of {settled[0].vcores} cores {share(used / asked)} of the time used.",
                "Ask for fewer, or give each task more to do: larger `data.batch_size`, fewer tasks.",
            )  # fmt: skip


def _saving(job: JobHistory) -> Iterator[Advice]:
    saving = sum(checkpoint.seconds or 0.0 for checkpoint in job.checkpoints)
    total = job.seconds or (job.last_event - job.started)
    if job.started and total > 0 and saving >= _SAVING * total:
        why = ", or `train.eval_every`: each evaluation has a checkpoint of its own" if _EVAL in job.params else ""
        yield Advice(
            "checkpoints", f"Checkpoints took {span(saving)} of {span(total)}.",
            f"Save less often: `checkpoint.every`{why}.",
        )  # fmt: skip


def _waiting(job: JobHistory) -> Iterator[Advice]:
    total = job.seconds or (job.last_event - job.started)
    first = [attempt for attempt in job.attempts if not attempt.attempt and attempt.requested and attempt.started]
    waited = max((attempt.started - attempt.requested for attempt in first), default=0.0)
    if job.started and total > 0 and waited >= max(_WAITING * total, 30.0):
        last = max(first, key=lambda attempt: attempt.started - attempt.requested)
        yield Advice(
            "containers", f"{last.name} waited {span(waited)} for its container, of {span(total)} in all.",
            "Smaller or fewer containers are granted sooner; `afo queue` shows what the queue has.",
        )  # fmt: skip


def _restarts(job: JobHistory) -> Iterator[Advice]:
    causes = Counter(attempt.cause for attempt in job.attempts if attempt.failed and attempt.cause in CAUSES)
    for cause, times in causes.most_common(1):
        if times >= _MANY:
            yield Advice("restarts", f"{times} containers ended with `{cause}`.", CAUSES[cause].advice)


def _records(job: JobHistory) -> Iterator[Advice]:
    if job.data.bad:
        yield Advice(
            "records", f"{number(job.data.bad)} records were skipped because they are damaged.",
            "The page of the data names a place in each file that has some.",
        )  # fmt: skip


def _by_role(job: JobHistory) -> Iterator[tuple[str, list[Attempt]]]:
    for role, attempts in groupby(job.attempts, key=lambda attempt: attempt.role):
        yield role, list(attempts)


def _run_seconds(attempt: Attempt) -> float:
    return max(0.0, attempt.ended - (attempt.registered or attempt.started or attempt.ended))
