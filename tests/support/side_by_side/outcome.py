"""What became of a training after a fault, from the steps that were seen. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["recovered", "from zero", "hung", "failed"]

#: Seconds without a step, at the end of what was watched, of a training that does not go on.
QUIET_S = 15.0
#: A step counter that fell below this share of what it had been began anew.
ZERO_SHARE = 0.1
#: A counter is read by several processes at once: a later line may hold a value this much older.
IN_FLIGHT = 20


@dataclass(frozen=True)
class Seen:
    """`step` was the model's step at `time` (seconds since 1970); the processes `by` have made some since the last."""

    time: float
    step: int
    by: frozenset[int]


@dataclass(frozen=True)
class Outcome:
    """`lost`: by how many steps the counter fell; `pause_s`: longest time after the fault in which it did not grow.

    `whole_s`: from the fault until every process that should train has made a step, None while `missing` have not.
    """

    kind: Kind
    lost: int
    pause_s: float
    whole_s: float | None
    missing: int


def whole_at(seen: Sequence[Seen], since: float, expected: Collection[int]) -> float | None:
    """When all of `expected` had made a step since then; None if they have not."""
    missing = set(expected)
    for each in seen:
        if each.time > since:
            missing -= each.by
            if not missing:
                return each.time
    return None


def grew_at(seen: Sequence[Seen]) -> float:
    """When the step grew last; 0 if it has not."""
    return max((later.time for earlier, later in pairwise(seen) if later.step > earlier.step), default=0.0)


def outcome(
    seen: Sequence[Seen], fault_at: float, until: float, expected: Collection[int], *, over_at: float, gave_up: bool
) -> Outcome:
    """Of a training watched `until` then, whose fault began at `fault_at` and was over at `over_at` (a pause ends).

    `expected` are the processes that should train at the end; `gave_up`: one has ended and is not started again.
    """
    steps = sorted(seen, key=lambda each: each.time)
    before = max((each.step for each in steps if each.time <= fault_at), default=0)
    lost, lowest = _fall(steps, fault_at)
    growth = [later.time for earlier, later in pairwise(steps) if later.step > earlier.step and later.time > fault_at]
    marks = [fault_at, *growth, until]
    pause_s = max(later - earlier for earlier, later in pairwise(marks))
    whole = whole_at(steps, over_at, expected)
    kind: Kind = "recovered"
    if gave_up:
        kind = "failed"
    elif until - marks[-2] > QUIET_S:
        kind = "hung"
    elif lowest < ZERO_SHARE * before:
        kind = "from zero"
    missing = set(expected).difference(*(each.by for each in steps if each.time > over_at))
    return Outcome(kind, lost, pause_s, None if whole is None else whole - fault_at, len(missing))


def _fall(steps: Sequence[Seen], fault_at: float) -> tuple[int, int]:
    """How far the counter fell below what it had been, and its lowest value, after the fault."""
    highest = lost = 0
    lowest = max((each.step for each in steps), default=0)
    for each in steps:
        if each.time > fault_at:
            lost, lowest = max(lost, highest - each.step), min(lowest, each.step)
        highest = max(highest, each.step)
    return (lost if lost > IN_FLIGHT else 0), lowest
