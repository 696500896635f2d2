"""Restarts of a job and its downtime, as `afo explain` prints them. Pure."""

import msgspec

from afo.events.downtime import Downtime, Outage
from afo_client.terminal.console import iso, pluralize, span_text, table, without_control

#: Rows that are printed, the newest; JSON has all that are kept.
MAX_ROWS = 20
_TITLES = ("LOST", "TASK", "CAUSE", "HOST", "NEW HOST", "TRAINING RESUMED", "DOWNTIME", "PHASES", "REPEATED")


def restart_lines(outages: tuple[Outage, ...], downtime: Downtime, now: float) -> list[str]:
    """The sum, then a row for each; nothing for a job without restarts."""
    if not outages:
        return []
    rows = [_row(outage, downtime) for outage in outages[-MAX_ROWS:]]
    more = [f"{pluralize(len(outages) - MAX_ROWS, 'older row')}: --json"] if len(outages) > MAX_ROWS else []
    return [f"downtime: {without_control(downtime_text(downtime, now))}", table(_TITLES, rows), *more]


def downtime_text(downtime: Downtime, now: float) -> str:
    """How long the training stood still, and tasks were away."""
    restarts = pluralize(downtime.task_restarts, "restart")
    if downtime.masters:
        restarts += f", and the Application Master was lost {pluralize(downtime.masters, 'time')}"
    still, share = downtime.seconds(now), downtime.share(now)
    if still is None:
        return f"unknown: the event log of an older afo does not record it; {restarts}"
    of_all = f" ({share:.1%} of the job's time)" if share is not None else ""
    away = f"task downtime {span_text(downtime.task_s or 0.0)} in all"
    return f"no training for {span_text(still)}{of_all}; {away}; {restarts}"


def restart_fields(outages: tuple[Outage, ...], downtime: Downtime, now: float) -> dict[str, object]:
    """For the JSON of `afo explain`: null is unknown."""
    return {
        "downtime": {
            "seconds": downtime.seconds(now), "share": downtime.share(now), "tasks_away_seconds": downtime.task_s,
            "restarts": downtime.restarts, "task_restarts": downtime.task_restarts, "masters_lost": downtime.masters,
        },
        "restarts": [_fields(outage) for outage in outages],
    }  # fmt: skip


def _fields(outage: Outage) -> dict[str, object]:
    times = ("lost", "requested", "started", "registered", "trained", "over")
    moments = {name: iso(getattr(outage, name)) for name in times}
    return {**msgspec.to_builtins(outage), **moments, "away_seconds": outage.away}


def _row(outage: Outage, downtime: Downtime) -> tuple[str, ...]:
    phases = ", ".join(f"{name} {span_text(seconds)}" for name, seconds in outage.phases)
    return (
        iso(outage.lost) or "", f"{outage.what} (attempt {outage.attempt})", cause_text(outage), outage.host,
        outage.now_on, iso(outage.trained) or _not_trained(outage, downtime),
        span_text(outage.away) if outage.away is not None else _not_trained(outage, downtime), phases,
        redone_text(outage),
    )  # fmt: skip


def _not_trained(outage: Outage, downtime: Downtime) -> str:
    if not downtime.known:
        return "unknown"
    return "no" if outage.over else "not yet"


def cause_text(outage: Outage) -> str:
    """Of an Application Master whose tasks went on there is none in the log."""
    return outage.cause or "its process ended, the tasks went on"


def redone_text(outage: Outage) -> str:
    """What was trained again, or is missing in the model; '' where nothing is."""
    if outage.missing_samples is not None:
        return f"updates of {pluralize(outage.missing_samples, 'sample')} missing"
    if outage.redone is None:
        return ""
    parts = ((outage.redone.steps, "step"), (outage.redone.samples, "sample"))
    return ", ".join(pluralize(number, noun) if number is not None else f"{noun}s unknown" for number, noun in parts)
