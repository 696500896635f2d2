"""Options that say how CSV files are written, alike for all commands that read them."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from afo.data.io.csv_file import CsvFormat
from afo.errors import UsageError

_OPTIONS = (
    click.option("--columns", help="For CSV: comma-separated column names; left out: the first line."),
    click.option("--delimiter", help=r"For CSV: character between cells; \t is a tab, as in .tsv.  [default: ,]"),
    click.option("--separator", default="", help="For CSV: character between the values of one cell, e.g. '|'."),
    click.option("--skip-lines", default=0, type=click.IntRange(min=0), help="For CSV: lines to skip before the data."),
    click.option("--strip", is_flag=True, help="For CSV: strip blanks from both ends of every cell."),
    click.option("--missing", multiple=True, help="For CSV: text that means no value; may be repeated."),
    click.option("--positive", multiple=True, help="For CSV: label text that means 1; may be repeated."),
)  # fmt: skip


def csv_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add them to a command, which hands what it gets for them to `csv_format`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def csv_format(
    *, columns: str | None, delimiter: str | None, separator: str, skip_lines: int, strip: bool,
    missing: Sequence[str], positive: Sequence[str], label: str | None = None,
    weight: str | None = None,
) -> CsvFormat:  # fmt: skip
    """`label`, `weight`: names of their columns. Raises `UsageError`."""
    names = None if columns is None else tuple(name.strip() for name in columns.split(","))
    if names is not None and (not all(names) or len(set(names)) < len(names)):
        raise UsageError(f"--columns {columns!r}: a name is empty, or stands there twice")
    if delimiter == "":
        raise UsageError("--delimiter '': it is one character")
    return CsvFormat(
        columns=names,
        delimiter="\t" if delimiter == r"\t" else delimiter,
        separator="\t" if separator == r"\t" else separator,
        skip_lines=skip_lines,
        strip=strip,
        missing=tuple(missing),
        positive=tuple(positive),
        label=label,
        weight=weight,
    )
