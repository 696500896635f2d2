"""A job's tasks over time, as bars. Pure."""

from collections.abc import Iterator
from itertools import groupby, pairwise

from msgspec import Struct

from afo_history_server.model.job_history import Attempt, JobHistory

#: Lanes that are drawn; those with failures come before others where not all fit.
MAX_LANES = 60
#: Marks of one lane.
MAX_MARKS = 200
#: Units from the first moment to the last.
WIDTH = 1000.0


class Bar(Struct, frozen=True):
    """A stretch of time: `waiting`, `starting`, `running`, in units of the drawing."""

    kind: str
    start: float
    width: float
    text: str


class Mark(Struct, frozen=True):
    """A moment: `restart`, `failed`, `checkpoint`, `evaluation`, `generation`."""

    kind: str
    at: float
    text: str


class Lane(Struct, frozen=True):
    """One task with all its attempts, or the job itself."""

    name: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    failed: bool = False


class Timeline(Struct, frozen=True):
    """`begin` and `end` in seconds since 1970; `left_out` lanes are not there."""

    begin: float
    end: float
    lanes: tuple[Lane, ...]
    left_out: int
    width: float = WIDTH


def timeline(job: JobHistory, now: float) -> Timeline | None:
    """None before anything happened."""
    begin = min([attempt.requested for attempt in job.attempts if attempt.requested] + [job.started or now])
    end = (
        max(job.last_event, *(attempt.ended for attempt in job.attempts), 0.0)
        if job.ended
        else max(now, job.last_event)
    )
    if not job.attempts or end <= begin:
        return None
    scale = _Scale(begin, end)
    lanes = [_lane(list(attempts), scale) for _, attempts in groupby(job.attempts, key=lambda attempt: attempt.name)]
    shown = set(sorted(range(len(lanes)), key=lambda place: not lanes[place].failed)[:MAX_LANES])
    kept = tuple(lane for place, lane in enumerate(lanes) if place in shown)
    return Timeline(begin, end, (_job_lane(job, scale), *kept), len(lanes) - len(kept))


class _Scale:
    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end

    def place(self, time: float) -> float:
        return round(WIDTH * min(1.0, max(0.0, (time - self.begin) / (self.end - self.begin))), 1)

    def bar(self, kind: str, start: float, stop: float, text: str) -> Bar:
        first = self.place(start)
        return Bar(kind, first, max(1.0, round(self.place(stop) - first, 1)), text)


def _job_lane(job: JobHistory, scale: _Scale) -> Lane:
    marks = [
        Mark("checkpoint", scale.place(checkpoint.time), f"checkpoint at step {checkpoint.step}")
        for checkpoint in job.checkpoints
    ]
    marks += [
        Mark("evaluation", scale.place(evaluation.time), f"evaluation of step {evaluation.step}")
        for evaluation in job.evaluations
    ]
    marks += [
        Mark("generation", scale.place(restart.time), f"{restart.what}: {restart.why}") for restart in job.returns
    ]
    return Lane("job", (), tuple(marks[:MAX_MARKS]))


def _lane(attempts: list[Attempt], scale: _Scale) -> Lane:
    bars = [bar for attempt in attempts for bar in _bars(attempt, scale)]
    marks = [mark for attempt in attempts for mark in _marks(attempt, scale)]
    return Lane(attempts[0].name, tuple(bars), tuple(marks[-MAX_MARKS:]), any(attempt.failed for attempt in attempts))


def _bars(attempt: Attempt, scale: _Scale) -> Iterator[Bar]:
    """From one of its moments to the next one that is known; the last lasts until its end or until now.

    None of an attempt whose beginning the log lacks.
    """
    over = attempt.ended or scale.end
    moments = [("waiting", attempt.requested), ("starting", attempt.started), ("running", attempt.registered)]
    known = [(kind, time) for kind, time in moments if time]
    where = f" on {attempt.host}" if attempt.host else ""
    for (kind, time), (_, until) in pairwise([*known, ("", over)]):
        yield scale.bar(kind, time, max(time, until), f"attempt {attempt.attempt} {kind}{where}")


def _marks(attempt: Attempt, scale: _Scale) -> Iterator[Mark]:
    for time in attempt.restarted:
        yield Mark("restart", scale.place(time), f"attempt {attempt.attempt}: its process restarted")
    if attempt.failed:
        yield Mark("failed", scale.place(attempt.ended), f"attempt {attempt.attempt}: {attempt.cause or 'ended'}")
