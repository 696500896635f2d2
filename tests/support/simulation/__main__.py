"""`python -m simulation`: many schedules, then the mutants; or the one of `--seed`. Exit code 1: one was broken."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import msgspec

from simulation import mutants
from simulation.batch import Summary, run_all, told
from simulation.schedule import run


def main(argv: list[str]) -> int:
    """What the command line says."""
    options = _options(argv)
    if options.seed is not None:
        return _one(options.seed, options.size)
    began = time.monotonic()
    summaries = [
        run_all("small", range(options.first, options.first + options.small), options.processes),
        run_all("large", range(options.first, options.first + options.large), options.processes),
    ]
    for summary in summaries:
        print(*summary.lines(), *(told(result) for result in summary.stories), sep="\n", flush=True)
    tried = mutants.try_all(options.processes) if options.mutants else []
    print(*mutants.lines(tried), sep="\n")
    seconds = time.monotonic() - began
    print(f"{seconds / 60:.1f} minutes on {options.processes} processes")
    _write(options.report, summaries, tried, seconds)
    return int(any(summary.broken for summary in summaries) or not mutants.all_killed(tried))


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one alone, and tell its story")
    parser.add_argument("--size", choices=("small", "large"), default="small", help="of the job of --seed")
    parser.add_argument("--small", type=int, default=100_000, help="schedules of up to 20 tasks")
    parser.add_argument("--large", type=int, default=200, help="schedules of 1,000 tasks or more")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--no-mutants", dest="mutants", action="store_false", help="leave the mutants out")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", type=Path, default=Path("build/sim/report.json"))
    return parser.parse_args(argv)


def _one(seed: int, size: str) -> int:
    result = run(seed, size, tell=True)
    print(result.story)
    print(f"broken: {result.broken}" if result.broken else f"{result.outcome}, no promise broken")
    return int(bool(result.broken))


def _write(path: Path, summaries: list[Summary], tried: list[mutants.Tried], seconds: float) -> None:
    report = {
        "seconds": round(seconds, 1),
        "schedules": summaries,
        "mutants": tried,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
