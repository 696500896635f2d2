"""Runs benchmarks, all of them unless some are named (`run.py job servers`), and ends with one table of their results.

Exits with 1 if a bar is missed or a benchmark did not run: both are in the table, and the last line says so.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from report import MISSED, RESULTS, machine, reached
from size import SMALLEST

HERE = Path(__file__).parent
PREFIX = "bench_"
HEAD = ("benchmark", "result", "ratio", "bar", "")


class Row(NamedTuple):
    """A line of the table."""

    benchmark: str
    result: str
    ratio: str = "-"
    bar: str = "-"
    verdict: str = ""


def names() -> list[str]:
    """Of all benchmarks."""
    return sorted(path.stem.removeprefix(PREFIX) for path in HERE.glob(f"{PREFIX}*.py"))


def ran(name: str) -> tuple[int, list[Path]]:
    """How a benchmark ended, and the files of results that it wrote."""
    before = _changed()
    print(f"=== {name}", flush=True)
    code = subprocess.run([sys.executable, HERE / f"{PREFIX}{name}.py"], check=False).returncode
    return code, [path for path, time in _changed().items() if before.get(path) != time]


def _changed() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(RESULTS.glob("*.json"))}


def rows(name: str, code: int, results: Sequence[dict[str, object]]) -> list[Row]:
    """Those of one benchmark: its results, and that it did not run to its end or compared nothing."""
    found = [
        Row(name, str(entry["name"]), f"{entry['ratio']:.2f}", f"{entry['at_least']:g}", _verdict(entry))
        for entry in results
    ]
    if code not in (0, MISSED):
        return [*found, Row(name, f"ended with {code}", verdict="CRASHED")]
    return found or [Row(name, "nothing was compared")]


def _verdict(entry: dict[str, object]) -> str:
    return "not judged" if SMALLEST else "reached" if reached(entry) else "MISSED"


def table(found: Sequence[Row]) -> str:
    """Lines with columns of equal width."""
    lines = [HEAD, *found]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def conclusion(found: Sequence[Row]) -> tuple[str, int]:
    """The last line, and the exit code."""
    count = {word: sum(row.verdict == word for row in found) for word in ("reached", "MISSED", "CRASHED")}
    code = 1 if count["MISSED"] or count["CRASHED"] else 0
    parts = ", ".join(f"{number} {word}" for word, number in count.items())
    return f"{parts}: exits with {code} (1 if a bar is missed or a benchmark crashed)", code


def main() -> int:
    """0 if all benchmarks ran and every bar is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names())}")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(names())):
        parser.error(f"no such benchmarks: {', '.join(unknown)}; there are {', '.join(names())}")
    found: list[Row] = []
    for name in given.names or names():
        code, files = ran(name)
        found += rows(name, code, [entry for file in files for entry in json.loads(file.read_text())])
    print(f"\n{machine()}\n{table(found)}")
    line, code = conclusion(found)
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
