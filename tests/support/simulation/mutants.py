"""Shows that the checks see a mistake: every mutant of `simulation.mutation` has to break a schedule.

A mutant is tried in a process of its own, which has the changed module in memory in place of the real one.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation.equivalent import why_equivalent

if TYPE_CHECKING:
    from simulation.mutation import Mutant

#: Schedules that a mutant may survive before it counts as alive.
_SCHEDULES = 2000
#: A mutant whose job goes round in circles is seen by this.
_TIMEOUT_S = 240
#: Fewer that are killed show nothing.
_LEAST = 10


@dataclass(frozen=True)
class Tried:
    """What became of a mutant: killed by the schedule of `seed`, stillborn (no import), equivalent, or alive."""

    mutant: str
    fate: str
    seed: int | None = None
    words: str = ""


def try_all(processes: int) -> list[Tried]:
    """Every mutant, on so many processes."""
    from simulation.mutation import all_mutants  # cosmic-ray is of no use to those that run schedules

    with ThreadPoolExecutor(processes) as pool:
        jobs = [pool.submit(_try, each) for each in all_mutants()]
        return [job.result() for job in jobs]


def all_killed(tried: list[Tried]) -> bool:
    """None is alive, and the tool made mutants at all."""
    return not tried or (all(each.fate != "alive" for each in tried) and _count(tried, "killed") >= _LEAST)


def lines(tried: list[Tried]) -> Iterator[str]:
    """For people: a line for each that was not killed, and how many were."""
    for each in tried:
        if each.fate != "killed":
            yield f"{each.fate}: {each.mutant} {each.words}".rstrip()
    if tried:
        others = ", ".join(f"{_count(tried, fate)} {fate}" for fate in ("equivalent", "stillborn", "alive"))
        yield f"{_count(tried, 'killed')} of {len(tried)} mutants killed; {others}"


def _count(tried: list[Tried], fate: str) -> int:
    return sum(each.fate == fate for each in tried)


def _try(changed: Mutant) -> Tried:
    mutant = str(changed)
    if why := why_equivalent(changed.module, changed.before, changed.after):
        return Tried(mutant, "equivalent", words=f"({why})")
    command = [sys.executable, "-m", "simulation.mutants", changed.module, str(_SCHEDULES)]
    try:
        done = subprocess.run(
            command, input=changed.source, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Tried(mutant, "killed", words=f"it does not end within {_TIMEOUT_S} s")
    if done.returncode != 0:
        return Tried(mutant, "stillborn", words=" ".join(done.stderr.strip().splitlines()[-1:]))
    result = json.loads(done.stdout)
    return Tried(mutant, "killed" if result["broken"] else "alive", result["seed"], result["broken"][-200:])


def install(module: str, source: str) -> None:
    """Let `source` be the module from now on, in this process. Nothing may have imported it before."""
    assert module not in sys.modules
    spec = importlib.util.find_spec(module)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made
    exec(compile(source, str(spec.origin), "exec"), made.__dict__)


def main(argv: list[str]) -> int:
    """`python -m simulation.mutants MODULE SCHEDULES < SOURCE`: the first schedule that the module breaks, as JSON."""
    install(argv[0], sys.stdin.read())
    from simulation.schedule import run  # after the mutant is in its place

    for seed in range(int(argv[1])):
        result = run(seed)
        if result.broken:
            print(json.dumps({"seed": seed, "broken": result.broken}))
            return 0
    print(json.dumps({"seed": None, "broken": ""}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
