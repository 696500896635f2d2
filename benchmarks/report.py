"""What every benchmark prints and writes: medians, ratio, machine, versions, load."""

import json
import os
import platform
from importlib import metadata
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "build" / "bench"


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


def publish(file: str, results: list[dict[str, object]]) -> bool:
    """Print the results, write `build/bench/<file>.json`; True if every claim holds."""
    print(machine())
    for entry in results:
        verdict = "holds" if float(str(entry["ratio"])) >= float(str(entry["at_least"])) else "DOES NOT HOLD"
        print(
            f"{entry['name']}: {entry['ours']:.4g} against {entry['theirs']:.4g} {entry['unit']}, "
            f"ratio {entry['ratio']:.2f}, at least {entry['at_least']}: {verdict}"
        )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{file}.json").write_text(json.dumps(results, indent=1) + "\n")
    return all(float(str(entry["ratio"])) >= float(str(entry["at_least"])) for entry in results)
