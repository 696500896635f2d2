"""Values as text for people. Every page shows times in UTC, as the logs do."""

import datetime
import math

import msgspec
from markupsafe import Markup

from afo.events.event_log import UnknownRecord
from afo.formats import plain_text
from afo_history_server.model.job_history import AnyRecord

#: An event's longest value in a line of the list; the JSON has all of it.
_VALUE_CHARACTERS = 200
NONE = "–"


def harmless(value: object) -> object:
    """What a page shows in place of a value: of text all that steers is replaced, whatever it came from."""
    return plain_text.plain(value, "\ufffd") if isinstance(value, str) and not isinstance(value, Markup) else value


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
    return str(event_fields(record).get("type", ""))


def event_text(record: AnyRecord) -> str:
    """The event's values in a line, without its type and task."""
    fields = event_fields(record)
    shown = {key: value for key, value in fields.items() if key not in ("type", "task")}
    words = (f"{key}={_short(value)}" for key, value in shown.items() if value not in ("", None, {}, []))
    return " ".join(words)


def event_task(record: AnyRecord) -> str:
    """`worker:0/1` (role, index, attempt), '' for an event of the whole job."""
    task = event_fields(record).get("task")
    if not isinstance(task, dict) or not {"role", "index", "attempt"} <= task.keys():
        return ""
    return f"{task['role']}:{task['index']}/{task['attempt']}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return truncate(text, _VALUE_CHARACTERS)


def _moment(seconds: float | None) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        return None


def truncate(text: str, most: int) -> str:
    """At most so many characters of it."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
