"""The curves of one job, or of several on the same drawings. Pure."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal

from afo_history_server.model.job_history import CurvePoint, Evaluation, JobHistory
from afo_history_server.model.text import metric, number, span
from afo_history_server.views.chart import Chart, chart, round_step, time_step

#: Metrics with curves of their own.
_MAX_METRICS = 8
#: What curves can be drawn over.
Over = Literal["time", "step"]
OVER: tuple[Over, ...] = ("time", "step")

_Points = Callable[[JobHistory], Iterable[Any]]
_ValueOf = Callable[[Any], float | None]


def job_charts(job: JobHistory, over: Over = "time") -> list[Chart]:
    """Over the time since the job began, where upright lines are returns to a checkpoint; or over its steps."""
    names = sorted(
        {name for evaluation in job.metric_curve for name in evaluation.metrics} - {"samples"}, key=_auc_first
    )
    marks = [restart.time - _beginning(job) for restart in job.returns]
    return charts({job.name or job.job_id: job}, names[:_MAX_METRICS], marks if over == "time" else (), over)


def charts(
    named: Mapping[str, JobHistory], metrics: Iterable[str], marks: Iterable[float] = (), over: Over = "time"
) -> list[Chart]:
    """One for each of the `metrics`, and for what every job measures; over the time since each job began, or steps."""
    marks = tuple(marks)
    x_words, x_step = (after, time_step) if over == "time" else (number, round_step)

    def draw(title: str, points: _Points, value: _ValueOf, words: Callable[[float], str]) -> Chart | None:
        lines = {
            label: [(_place(over, job, point), value(point)) for point in points(job)] for label, job in named.items()
        }
        return chart(title, lines, x_words, words, marks, x_step)

    drawn = [
        *(draw(_title(name), _evaluations, partial(_metric, name), metric) for name in metrics),
        draw("Training loss", _curve, lambda point: point.loss, metric),
        draw("Staleness, updates", _stale, lambda point: point.staleness, metric),
        draw("Samples per second", _curve, lambda point: point.samples_per_s, number),
        draw("Waiting for input", _curve, lambda point: point.input_wait, percent),
    ]
    return [drawing for drawing in drawn if drawing is not None]


def _curve(job: JobHistory) -> Iterable[CurvePoint]:
    return job.curve


def _stale(job: JobHistory) -> Iterable[CurvePoint]:
    """Nothing of a job that has told none. Of one worker without a pipeline it is 0 throughout, and is drawn so."""
    return job.curve if any(point.staleness is not None for point in job.curve) else ()


def _evaluations(job: JobHistory) -> Iterable[Evaluation]:
    return job.metric_curve


def _metric(name: str, evaluation: Evaluation) -> float | None:
    return evaluation.metrics.get(name)


def _place(over: Over, job: JobHistory, point: CurvePoint | Evaluation) -> float:
    return point.time - _beginning(job) if over == "time" else float(point.step)


def _beginning(job: JobHistory) -> float:
    return job.started or (job.curve[0].time if job.curve else 0.0)


def after(seconds: float) -> str:
    """Time since the beginning, on an axis: `5 min`, not `5 min 0 s`."""
    text = span(round(seconds)) if seconds >= 10 else f"{seconds:g} s"
    first, _, rest = text.partition(" ")
    unit, _, more = rest.partition(" ")
    return f"{first} {unit}" if more.startswith("0 ") else text


def percent(part: float) -> str:
    """A share on an axis: `1.25 %`."""
    return f"{100 * part:.3g} %"


def _title(name: str) -> str:
    return {"auc": "AUC", "log_loss": "Log loss"}.get(name, name.replace("_", " ").capitalize())


def _auc_first(name: str) -> tuple[bool, bool, str]:
    return name != "auc", name != "log_loss", name
