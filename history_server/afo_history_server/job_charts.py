"""The curves of one job, or of several on the same drawings. Pure."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from afo_history_server.chart import Chart, Value, chart, time_step
from afo_history_server.job_history import JobHistory
from afo_history_server.words import metric, number, span

#: Metrics with curves of their own.
_MAX_METRICS = 8


def job_charts(job: JobHistory) -> list[Chart]:
    """Over the time since the job began; upright lines are returns to a checkpoint."""
    names = sorted({name for each in job.metric_curve for name in each.metrics} - {"samples"}, key=_auc_first)
    marks = [each.time - _beginning(job) for each in job.returns]
    return charts({job.name or job.job_id: job}, names[:_MAX_METRICS], marks)


def charts(named: Mapping[str, JobHistory], metrics: Iterable[str], marks: Iterable[float] = ()) -> list[Chart]:
    """One for each of the `metrics`, and for what every job measures; over the time since each job began."""
    marks = tuple(marks)

    def draw(title: str, values: Callable[[JobHistory], list[Value]], words: Callable[[float], str]) -> Chart | None:
        lines = {
            label: [(time - _beginning(job), value) for time, value in values(job)] for label, job in named.items()
        }
        return chart(title, lines, after, words, marks, time_step)

    drawn = [
        *(draw(_title(name), partial(_metric, name), metric) for name in metrics),
        draw("Training loss", lambda job: [(each.time, each.loss) for each in job.curve], metric),
        draw("Staleness, updates", _staleness, metric),
        draw("Samples per second", lambda job: [(each.time, each.samples_per_s) for each in job.curve], number),
        draw("Waiting for input", lambda job: [(each.time, each.input_wait) for each in job.curve], percent),
    ]
    return [each for each in drawn if each is not None]


def _staleness(job: JobHistory) -> list[Value]:
    """Nothing of a job with one worker, whose gradients are never stale."""
    values = [(each.time, each.staleness) for each in job.curve]
    return values if any(value for _, value in values) else []


def _metric(name: str, job: JobHistory) -> list[Value]:
    return [(each.time, each.metrics.get(name)) for each in job.metric_curve]


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
