"""Many schedules on several processes, and what came of them all."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from simulation.schedule import Result, run

#: Broken schedules that are kept with their story; of the others the seed alone.
_STORIES = 20


@dataclass
class Summary:
    """Of many schedules of one size."""

    size: str
    schedules: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    events: int = 0
    stimuli: int = 0
    simulated_hours: float = 0.0
    wall_s: float = 0.0
    #: Seeds of schedules that broke a promise, and the first of them in full.
    broken: list[int] = field(default_factory=list)
    stories: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """One more schedule."""
        self.schedules += 1
        self.faults.update(result.faults)
        self.events += result.events
        self.stimuli += result.stimuli
        self.simulated_hours += result.seconds / 3600
        if not result.broken:
            self.outcomes[result.outcome] += 1
            return
        self.broken.append(result.seed)
        if len(self.stories) < _STORIES:
            self.stories.append(result)

    def merge(self, other: Summary) -> None:
        """A block that another process ran."""
        self.schedules += other.schedules
        self.outcomes.update(other.outcomes)
        self.faults.update(other.faults)
        self.events += other.events
        self.stimuli += other.stimuli
        self.simulated_hours += other.simulated_hours
        self.broken += other.broken
        self.stories = (self.stories + other.stories)[:_STORIES]

    def lines(self) -> Iterator[str]:
        """For people."""
        yield (
            f"{self.schedules:,} {self.size} schedules in {self.wall_s:.0f} s: {self.events:,} events, "
            f"{self.stimuli:,} stimuli, {self.simulated_hours:,.0f} simulated hours, {len(self.broken)} broken"
        )
        yield "  ended: " + ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.most_common())
        yield "  faults: " + ", ".join(f"{count:,} {kind}" for kind, count in self.faults.most_common())


def run_block(size: str, seeds: Iterable[int]) -> Summary:
    """In this process."""
    gc.freeze()  # what was imported is looked through no more
    summary = Summary(size)
    for seed in seeds:
        summary.add(run(seed, size))
    return summary


def run_all(size: str, seeds: range, processes: int) -> Summary:
    """In blocks, on so many processes."""
    total, began = Summary(size), time.monotonic()
    step = 4 if size == "large" else 500
    blocks = [seeds[first : first + step] for first in range(0, len(seeds), step)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for number, block in enumerate(pool.map(run_block, [size] * len(blocks), blocks), start=1):
            total.merge(block)
            if number % 20 == 0 or block.broken:
                print(f"{total.schedules:,} {size}, {len(total.broken)} broken", file=sys.stderr, flush=True)
    total.wall_s = time.monotonic() - began
    return total


def told(result: Result) -> str:
    """A broken schedule for people, with how to run it again."""
    again = f"PYTHONPATH=tests/support python -m simulation --size {result.size} --seed {result.seed}"
    return f"seed {result.seed} ({result.size}): {result.broken}\n{result.story}\nagain: {again}"
