"""Values as text for people. Every page shows times in UTC, as the logs do."""

import datetime
import math
import re

import msgspec

from afo.event_log import UnknownRecord
from afo_history_server.job_history import AnyRecord

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: Characters that turn the direction of the text around them: a log line could show something else than it holds.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
#: An event's longest value in a line of the list; the JSON has all of it.
_VALUE_CHARACTERS = 200
NONE = "–"


def plain(text: str) -> str:
    """Text of a job without terminal escapes, control characters and turns of direction. Not escaped for HTML."""
    return _DIRECTION.sub("\ufffd", _CONTROL.sub("\ufffd", _ESCAPES.sub("", text)))


def when(seconds: float | None) -> str:
    """`2026-11-21 08:15:02`, UTC."""
    moment = _moment(seconds)
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else NONE


def iso(seconds: float | None) -> str:
    """ISO-8601 for machines, '' if unknown."""
    moment = _moment(seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else ""


def span(seconds: float | None) -> str:
    """`4.2 s`, `42 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    whole = max(0, int(seconds))
    if whole < 10:
        return f"{max(0.0, seconds):.1f} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def size(number: float | None) -> str:
    """Bytes: `512 B`, `3.4 MiB`."""
    value, units = float(number or 0), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 100 else f"{value:.1f} {units[0]}"


def number(value: float | None) -> str:
    """`1,234,567`, `0.7512`."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def metric(value: float | None) -> str:
    """Four digits behind the point, so that a column can be compared; a count without any."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4f}"


def share(value: float | None) -> str:
    """`63 %`."""
    return NONE if value is None or not math.isfinite(value) else f"{100 * value:.0f} %"


def event_fields(record: AnyRecord) -> dict[str, object]:
    """The event as it stands in the log, `type` included; of one that this version does not know, all of it."""
    if isinstance(record, UnknownRecord):
        return record.event.raw
    fields: dict[str, object] = msgspec.to_builtins(record.event)
    return fields


def event_type(record: AnyRecord) -> str:
    """What happened, in a word."""
    return plain(str(event_fields(record).get("type", "")))


def event_text(record: AnyRecord) -> str:
    """The event's values in a line, without its type and task."""
    fields = event_fields(record)
    shown = {key: value for key, value in fields.items() if key not in ("type", "task")}
    words = (f"{key}={_short(value)}" for key, value in shown.items() if value not in ("", None, {}, []))
    return plain(" ".join(words))


def event_task(record: AnyRecord) -> str:
    """`worker:0/1` (role, index, attempt), '' for an event of the whole job."""
    task = event_fields(record).get("task")
    if not isinstance(task, dict) or not {"role", "index", "attempt"} <= task.keys():
        return ""
    return plain(f"{task['role']}:{task['index']}/{task['attempt']}")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_CHARACTERS else text[: _VALUE_CHARACTERS - 1] + "…"


def _moment(seconds: float | None) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        return None
