"""What every benchmark prints and writes: medians, ratio, machine, versions, load.

A benchmark ends with 0, or with `MISSED` if it ran and a bar is missed; with anything else it has not run.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from size import SMALLEST

RESULTS = Path(os.environ.get("AFO_BENCH_RESULTS") or Path(__file__).parent.parent / "build" / "bench")
#: How a benchmark ends that misses a bar. Not 1, by which Python tells of an exception.
MISSED = 3


def machine() -> str:
    """One line about where and with what this was measured."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("afo", "grpcio", "tensorflow-cpu"))
    cores, load = os.cpu_count(), os.getloadavg()[0]
    return f"{platform.machine()}, {cores} cores, load {load:.1f}, Python {platform.python_version()}, {versions}"


def result(
    name: str, ours: float, theirs: float, unit: str, at_least: float, *, lower_is_better: bool
) -> dict[str, object]:
    """One claim; a ratio above 1 means that ours is better."""
    ratio = theirs / ours if lower_is_better else ours / theirs
    return {"name": name, "ratio": ratio, "at_least": at_least, "ours": ours, "theirs": theirs, "unit": unit}


def reached(entry: dict[str, object]) -> bool:
    """Whether a result is at its bar or above."""
    return float(str(entry["ratio"])) >= float(str(entry["at_least"]))


def publish(file: str, results: list[dict[str, object]]) -> bool:
    """Print the results, write `build/bench/<file>.json`; True if every claim holds, or if none is judged.

    `file` is the benchmark's name without `bench_`, and where it writes several, an underscore and which one it is.
    """
    print(machine())
    for entry in results:
        verdict = "not judged" if SMALLEST else "holds" if reached(entry) else "DOES NOT HOLD"
        print(
            f"{entry['name']}: {entry['ours']:.4g} against {entry['theirs']:.4g} {entry['unit']}, "
            f"ratio {entry['ratio']:.2f}, at least {entry['at_least']}: {verdict}"
        )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{file}.json").write_text(json.dumps(results, indent=1) + "\n")
    return SMALLEST or all(map(reached, results))


def each_alone(variants: Sequence[Sequence[str]]) -> int:
    """Run this program once with each of these arguments added, for what a process can be set to only once.

    Returns how all together ended: a variant that did not run counts more than one that misses a bar.
    """
    codes = [subprocess.run([sys.executable, *sys.argv, *more], check=False).returncode for more in variants]
    return next((code for code in codes if code not in (0, MISSED)), max(codes))
