"""A source of training data that goes on: files come while the job runs, and at some time no more."""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass

from afo.protocol.input_file import InputFile
from afo_am.state import commands as c

#: When a simulated job begins; what comes by then is in its configuration.
BEGINNING = 1000.0


@dataclass(frozen=True)
class Source:
    """All files that will have come, when each does (ascending), and when it is known that there are no more."""

    files: tuple[InputFile, ...]
    times: tuple[float, ...]
    closes: float

    def count(self, time: float) -> int:
        """Files that are there."""
        return bisect_right(self.times, time)

    def look(self, time: float, known: int, closed: bool, chance: random.Random) -> c.SplitsFound | None:
        """What whoever watches it tells the AM, which knows of so many: at times again, and not always all."""
        there, ended = self.count(time), time >= self.closes
        if there == known and ended == closed and chance.random() < 0.9:
            return None
        first = chance.choice((known, chance.randint(0, known)))
        upto = chance.choice((there, chance.randint(known, there)))
        return c.SplitsFound(first, self.files[first:upto], ended and upto == len(self.files))


def make_source(chance: random.Random, files: tuple[InputFile, ...]) -> Source:
    """In a few bursts within two minutes, or with a pause after which a job that stands still would be ended."""
    late = chance.choice((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 700.0))
    bursts = sorted(chance.uniform(-30.0, 120.0) + late * (chance.random() < 0.5) for _ in range(chance.randint(1, 6)))
    times = sorted(BEGINNING + chance.choice(bursts) for _ in files)
    return Source(files, tuple(times), times[-1] + chance.choice((0.0, 0.0, chance.uniform(0, 60))))
