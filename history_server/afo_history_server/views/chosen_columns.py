"""Columns of the list of jobs that somebody chooses: metrics, settings and tags. Pure.

They are named as MLflow's search names them: `metrics.auc`, `params.data.batch_size`, `tags.team`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from afo.errors import SpecError, UsageError
from afo.formats.units import Duration, Memory
from afo_history_server.model.job_summary import JobSummary

#: Of what a column can be: fields of `JobSummary`.
KINDS = ("metrics", "params", "tags")
#: Columns at once; names of one kind that are offered.
MOST, MOST_OFFERED = 12, 60
#: Without a question for others.
DEFAULT = ("metrics.auc",)
#: A cell: of a metric a number, else a text, None where the job has none.
Cell = float | str | None


class Column(Struct, frozen=True):
    """A metric, a setting that somebody said, or a tag."""

    kind: str
    of: str

    @property
    def name(self) -> str:
        """By which it is asked for."""
        return f"{self.kind}.{self.of}"

    @property
    def title(self) -> str:
        """Above its cells."""
        return "AUC" if self.name == "metrics.auc" else self.of

    def value(self, job: JobSummary) -> Cell:
        """What the job has there."""
        values: Mapping[str, Cell] = getattr(job, self.kind)
        return values.get(self.of)

    def order(self, job: JobSummary) -> tuple[int, float, str] | None:
        """To sort by: numbers before words."""
        value = self.value(job)
        if value is None:
            return None
        number = _number(value, (float, Duration.parse, Memory.parse) if self.kind == "params" else (float,))
        return (1, 0.0, str(value).casefold()) if number is None else (0, number, "")


def column(name: str) -> Column:
    """The column of a name. Raises `UsageError`."""
    kind, dot, of = name.partition(".")
    if kind not in KINDS or not dot or not of:
        raise UsageError(
            f"column is {name[:80]!r}; allowed is metrics.NAME, params.SETTING or tags.KEY, like metrics.log_loss or "
            "params.data.batch_size"
        )
    return Column(kind, of)


def columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Each once. Raises `UsageError` for one that there cannot be, or too many."""
    found = tuple(dict.fromkeys(column(name) for name in names))
    if len(found) > MOST:
        raise UsageError(f"{len(found)} columns; allowed are {MOST}")
    return found


def offer_columns(jobs: Sequence[JobSummary], chosen: Sequence[Column]) -> dict[str, list[Column]]:
    """Columns that these jobs have something for, and the `chosen` ones, by kind.

    Settings that are not the same in all of them come first.
    """
    of_chosen = {kind: {picked.of for picked in chosen if picked.kind == kind} for kind in KINDS}
    have = {
        "metrics": Counter(name for job in jobs for name in job.metrics),
        "params": Counter(dict.fromkeys((name for job in jobs for name in job.params), 0)),
        "tags": Counter(name for job in jobs for name in job.tags),
    }
    for name in have["params"]:
        have["params"][name] = len({job.params.get(name) for job in jobs})
    return {
        kind: [Column(kind, name) for name in (*sorted(of_chosen[kind]), *_commonest(have[kind], of_chosen[kind]))]
        for kind in KINDS
    }


def _commonest(names: Counter[str], but: set[str]) -> list[str]:
    ordered = sorted(names, key=lambda name: (-names[name], name))
    return [name for name in ordered if name not in but][:MOST_OFFERED]


def _number(value: float | str, ways: Iterable[Callable[[float | str], float]]) -> float | None:
    """By the first of the ways to read it that can: of a duration its seconds, of an amount of memory its MiB."""
    for read in ways:
        with suppress(ValueError, SpecError):
            number = float(read(value))
            return number if number == number else None
    return None
