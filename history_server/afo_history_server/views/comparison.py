"""Several jobs side by side: curves on one drawing, and the settings in which they differ. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from afo_history_server.model.job_history import JobHistory
from afo_history_server.model.job_settings import Setting
from afo_history_server.views.chart import Chart
from afo_history_server.views.job_charts import Over, charts

#: Where a job does not have the setting.
ABSENT = "–"
#: Settings in which jobs always differ.
_OWN = frozenset({"name"})


class Difference(Struct, frozen=True):
    """A setting that is not the same in all jobs: its value in each."""

    path: str
    values: tuple[str, ...]


def differences(settings: Sequence[Sequence[Setting]]) -> list[Difference]:
    """Of the jobs' settings, in the order in which they first come."""
    values = [{setting.path: setting.value for setting in job} for job in settings]
    paths = dict.fromkeys(path for job in values for path in job)
    rows = [Difference(path, tuple(job.get(path, ABSENT) for job in values)) for path in paths if path not in _OWN]
    return [row for row in rows if len(set(row.values)) > 1]


def labels(jobs: Sequence[JobHistory]) -> list[str]:
    """A job's name where no other has it, else with the last part of its id."""
    names = [job.name or job.job_id for job in jobs]
    return [
        name if names.count(name) == 1 else f"{name} {job.job_id.rpartition('_')[2]}"
        for name, job in zip(names, jobs, strict=True)
    ]


def comparing_charts(jobs: Sequence[JobHistory], over: Over) -> list[Chart]:
    """Over the time since each job began, or over their steps."""
    metrics = sorted(
        {name for job in jobs for evaluation in job.metric_curve for name in evaluation.metrics} & {"auc", "log_loss"}
    )
    return charts(dict(zip(labels(jobs), jobs, strict=True)), metrics, over=over)
