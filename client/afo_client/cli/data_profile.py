"""`afo data profile`: statistics of each feature, in the terminal or as a page."""

from html import escape
from typing import Any

import click
import msgspec

from afo import storage
from afo.data.prepare.profile import DRIFTED, QUANTILES, FeatureProfile, Profile, profile_files
from afo_client.cli.csv_options import csv_format, csv_options
from afo_client.cli.options import examples
from afo_client.terminal.console import print_json, print_result, say, table, without_control

_POSITIVE = click.IntRange(min=1)
#: Characters of a value that are shown.
_VALUE = 24
#: A value that is rarer is not among those that are shown.
_SHARE = 0.005


@click.command(
    short_help="Show statistics of each feature and of the label.",
    epilog=examples(
        "afo data profile 'clicks/train/*' --label click --eval 'clicks/eval/*'",
        "afo data profile 'hdfs:///ctr/dt=2026-11-19/part-*' --label click --html ctr.html",
    ),
)
@click.argument("files", nargs=-1, required=True)
@click.option("--eval", "evaluation", multiple=True, metavar="GLOB", help="Evaluation files; adds their drift.")
@click.option("--label", default="", help="Feature that is predicted; adds what each other feature tells about it.")
@click.option("--records", default=5_000, show_default=True, type=_POSITIVE, help="Records to read from each file.")
@click.option("--look-at", default=8, show_default=True, type=_POSITIVE, help="Files to read, spread over all.")
@click.option("--html", "page", metavar="FILE", help="Write a page to this file.")
@csv_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def profile(
    files: tuple[str, ...], evaluation: tuple[str, ...], label: str, records: int, look_at: int, page: str | None,
    as_json: bool, **csv: Any,
) -> None:  # fmt: skip
    """Show statistics of the features in FILES (TFRecord, Parquet or CSV; paths, URLs or globs)."""
    found = profile_files(files, evaluation, label, records, look_at, csv_format(label=label, **csv))
    if page:
        write_page(found, page)
        say(f"wrote {page}")
    if as_json:
        print_json(msgspec.to_builtins(found))
    elif not page:
        print_result(text(found))


def text(found: Profile) -> str:
    """For a terminal."""
    return f"{_about_text(found)}\n{table(_head(found), [_row(feature, found) for feature in found.features])}"


def write_page(found: Profile, place: str) -> None:
    """One file without scripts or links, a path or URL; it appears whole. Raises what `afo.storage` raises."""
    rows = "\n".join(map(_html_row, found.features, (_row(feature, found) for feature in found.features)))
    head = "".join(f"<th>{escape(name.capitalize())}</th>" for name in _head(found))
    page = _PAGE.format(style=_STYLE, about=escape(_about_text(found)), head=head, rows=rows)
    storage.write_bytes(place, page.encode())


def _html_row(feature: FeatureProfile, cells: tuple[str, ...]) -> str:
    shifted = ' class="shifted"' if feature.drift is not None and feature.drift > DRIFTED else ""
    return f"<tr{shifted}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _about_text(found: Profile) -> str:
    label = "" if found.positive is None else f", `{found.label}` above 0 in {found.positive:.3%}"
    compared = f"; {found.evaluation:,} of the evaluation data" if found.evaluation else ""
    return f"{found.records:,} records of the training data{label}{compared}"


def _head(found: Profile) -> tuple[str, ...]:
    quantiles = (f"P{100 * quantile:g}" for quantile in QUANTILES)
    label = ("CORRELATION", "LABEL INFO") if found.label else ()
    drift = ("DRIFT",) if found.evaluation else ()
    finite = ("NOT FINITE",) if _holds_others(found) else ()
    first = ("FEATURE", "VALUES", "COVERAGE", "LENGTH", "DISTINCT", *finite)
    return (*first, "MEAN", "STD", *quantiles, *label, *drift, "TOP")


def _holds_others(found: Profile) -> bool:
    """Than finite numbers."""
    return any(feature.not_finite for feature in found.features)


def _row(feature: FeatureProfile, found: Profile) -> tuple[str, ...]:
    quantiles = map(_number, feature.quantiles or (None,) * len(QUANTILES))
    label = (_number(feature.correlation), _share(feature.label_info)) if found.label else ()
    drift = (_number(feature.drift),) if found.evaluation else ()
    top = ", ".join(f"{_short(value.value)} {value.share:.0%}" for value in feature.top[:3] if value.share >= _SHARE)
    return (
        feature.name, feature.kind, f"{feature.coverage:.1%}", f"{feature.length:.4g}", f"{feature.distinct:,}",
        *((_share(feature.not_finite) if feature.not_finite else "",) if _holds_others(found) else ()),
        _number(feature.mean), _number(feature.std), *quantiles, *label, *drift, top,
    )  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def _short(value: str) -> str:
    shown = without_control(value)
    return shown if len(shown) <= _VALUE else f"{shown[: _VALUE - 1]}…"


_STYLE = """
:root { color-scheme: light dark; } body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; }
th, td { text-align: right; padding: 0.35rem 0.7rem; border-top: 1px solid #8886; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; } .shifted { background: #d9a40044; }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Data profile</title>
<style>{style}</style></head>
<body><h1>Data profile</h1><p>{about}</p>
<div class="scroll" tabindex="0" role="region" aria-label="features"><table>
<thead><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table></div></body></html>
"""
