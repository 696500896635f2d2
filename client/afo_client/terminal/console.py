"""Console output: results to stdout, words for people to stderr, JSON with a version."""

import datetime
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence

import click
import msgspec

from afo.formats.plain_text import STEERING, plain
from afo.protocol.input_wait import InputBound
from afo_client.terminal.ratio import as_float

#: Version of every JSON object on stdout: fields may be added under it, none is renamed or removed.
API = "afo/v1"
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]+")


def say(text: str = "", *, head: str = "", newline: bool = True) -> None:
    """Words for a person, to stderr; `head` before them is ours, with its colours."""
    click.echo(head + without_control(text), sys.stderr, nl=newline, color=_colours(sys.stderr.isatty()))


def say_over(text: str, width: int) -> None:
    """Words in place of the `width` characters of a terminal's last line."""
    click.echo(f"\r{' ' * width}\r{without_control(text)}", sys.stderr, nl=False, color=_colours(True))


def print_result(text: str, *, head: str = "", raw: bool = False, newline: bool = True) -> None:
    """A result, to stdout; `head` as of `say`. With `raw` its escape sequences go wherever stdout goes."""
    shown = head + (text if raw else without_control(text))
    click.echo(shown, sys.stdout, nl=newline, color=raw or _colours(sys.stdout.isatty()))


def print_json(fields: dict[str, object]) -> None:
    """One JSON object, to stdout."""
    click.echo(json_line(fields), sys.stdout)


def json_line(fields: dict[str, object]) -> str:
    """One line of JSON that begins with the version; numbers that are none (NaN) are null.

    What steers a terminal is escaped; where stdout is not of UTF-8, so is all else beyond ASCII.
    """
    line = msgspec.json.encode({"api": API, **fields}).decode()
    escaped = STEERING if sys.stdout.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else _BEYOND_ASCII
    return escaped.sub(lambda match: json.dumps(match[0])[1:-1], line)


def _colours(terminal: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return terminal or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")


def iso(seconds: float | None) -> str | None:
    """ISO-8601 in UTC, to the millisecond; None for a time that is not known, or in no year from 1 to 9999."""
    if not seconds:
        return None
    try:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_control(text: str) -> str:
    """The text without what would steer the terminal: a job prints what it likes."""
    return plain(text).replace("\r", "")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns separated by two blanks. Each row has a cell for each head."""
    lines = [tuple(head), *(tuple(without_control(cell).replace("\n", " ") for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def size_text(size: float) -> str:
    """Bytes for people."""
    size = as_float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def pluralize(number: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


#: What is said of a model's quality wherever its AUC is, and how.
QUALITY = {"auc": ("AUC", ".4f"), "log_loss": ("log loss", ".4f"), "calibration": ("calibration", ".3f")}

#: The heads over `quality_cells`.
QUALITY_HEADS = tuple(name.upper() for name, _ in QUALITY.values())


def quality_cells(metrics: Mapping[str, float]) -> tuple[str, ...]:
    """AUC, log loss and calibration for a table; empty where they were not measured."""
    return tuple(format(metrics[name], form) if name in metrics else "" for name, (_, form) in QUALITY.items())


def quality_text(metrics: Mapping[str, float]) -> str:
    """`AUC 0.9184, log loss 0.2925, calibration 0.996`: what was measured of them."""
    cells = zip(QUALITY.values(), quality_cells(metrics), strict=True)
    return ", ".join(f"{name} {cell}" for (name, _), cell in cells if cell)


def attempt_text(task: str, attempt: int, host: str) -> str:
    """`worker:1 (attempt 2) on node-7`; without the last words while it has no host."""
    return f"{task} (attempt {attempt})" + (f" on {host}" if host else "")


def span_text(seconds: float) -> str:
    """A time span for people: `42 s`, `3 min 20 s`, `2 h 5 min`."""
    if not math.isfinite(seconds := as_float(seconds)):
        return f"{seconds} s"
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


_WAITED_FOR: dict[InputBound | None, str] = {
    None: "", "files": " (mostly for files)", "reading": " (mostly reading records)",
    "preparing": " (mostly preparing batches)",
}  # fmt: skip


def wait_text(share: float, bound: InputBound | None) -> str:
    """How much of its time training waits for input, and for what: `input wait 12% (mostly for files)`."""
    return f"input wait {share:.0%}{_WAITED_FOR[bound]}"
