"""What the ledger knows of the number of workers and of slow ones, with bounds of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afo.events import types as ev
from afo.job import Elastic
from afo_am.policy.stragglers import HOUR_S, LEAST, MOST_PER_HOUR
from simulation.broken import Broken
from simulation.policy import ANY_TIME, Line

if TYPE_CHECKING:
    from simulation.ledger import Ledger


def scaled(ledger: Ledger, event: ev.WorkersScaled, time: float) -> None:
    """Another number, within the bounds of the job file; those beyond it leave and do not come back."""
    ledger.no_verdict(event)
    instances = ledger.config.job.roles["worker"].instances
    if not isinstance(instances, Elastic) or not instances.min <= event.number <= instances.max:
        raise Broken(f"{event}, the job file has {instances}")
    if event.before != ledger.workers or event.number == ledger.workers:
        raise Broken(f"{event}, {ledger.workers} were wanted before")
    ledger.workers = event.number
    for (role, index), line in ledger.lines.items():
        if role == "worker" and index >= min(event.number, event.before):
            line.window = line.window[0], ANY_TIME
            if index >= event.number and line.stage in ("open", "registered"):
                line.leaves = "scaled_away"


def found_slow(ledger: Ledger, event: ev.TaskSlow, time: float) -> None:
    """Never the chief, never among fewer than three, never one that nothing slows down."""
    ledger.no_verdict(event)
    line, key = ledger.line(event.task, "registered"), (event.task.role, event.task.index)
    trainers = sum(
        each.stage == "registered" for (role, _), each in ledger.lines.items() if role in ("chief", "worker")
    )
    if key == ledger.config.job.chief or trainers < LEAST or line.leaves or line.slow or not ledger.ready:
        raise Broken(f"{event}: it is the chief, or one of {trainers}, or {line}")
    if ledger.slowed is not None and key not in ledger.slowed:
        raise Broken(f"{event}, and nothing slows it down")
    line.slow = True
    if not event.stays:
        _replaced(ledger, event, line, time)


def _replaced(ledger: Ledger, event: ev.TaskSlow, line: Line, time: float) -> None:
    recent = [index for since, index in ledger.replaced if time - since <= HOUR_S]
    before = ledger.lines["worker", recent[-1]] if recent else None
    pending = before is not None and before.stage in ("open", "ended") and not before.given_up
    if event.task.index in recent or len(recent) >= MOST_PER_HOUR or (pending and recent[-1] < ledger.workers):
        raise Broken(f"{event} after {recent} in an hour, the last of which is {before}")
    ledger.replaced.append((time, event.task.index))
    line.leaves = "slow"
