"""What the long series on a cluster reckon with: phases by the event log, the mix of kills, percentiles."""

from collections import Counter

import pytest

from afo.events import event_log
from afo.events import types as ev
from afo.rpc.messages import TaskId
from cluster_faults import GROUPS
from cluster_faults.phases import PHASES
from soak import MIX, order, percentile

_WORKER = TaskId("worker", 0, 0)
_SPLITS = 2


def _log(*events: ev.AnyEvent) -> list[event_log.Record]:
    """One event a second."""
    return [
        event_log.Record(seq=number, am_attempt=1, incarnation=1, time=float(number), event=event)
        for number, event in enumerate(events)
    ]


STORY = _log(
    ev.AmStarted(am_attempt=1, incarnation=1, address="a:1", host="a", pid=1),
    ev.GenerationStarted(generation=1, ps=("a:2",)),
    ev.VariablesReady(task=_WORKER, generation=1, restored="", step=0),
    ev.SplitLeased(task=_WORKER, split=0, epoch=0, resume=False),
    ev.SplitDone(task=_WORKER, split=0, epoch=0, count=1, xor=1),
    ev.CheckpointBegun(task=_WORKER, generation=1, directory="d", final=False),
    ev.CheckpointWritten(task=_WORKER, generation=1, step=1, manifest="m", positions=(), final=False),
    ev.SplitLeased(task=_WORKER, split=1, epoch=0, resume=False),
    ev.SplitDone(task=_WORKER, split=1, epoch=0, count=1, xor=1),
    ev.JobEnding(state="SUCCEEDED", cause="succeeded", diagnostics=""),
)


@pytest.mark.parametrize(
    ("name", "first", "last"), [("start", 1, 2), ("training", 4, 7), ("checkpoint", 5, 6), ("shutdown", 7, 9)]
)
def test_a_phase_is_between_two_events(name: str, first: int, last: int) -> None:
    phase = next(each for each in PHASES if each.name == name)
    hits = [at for at in range(len(STORY)) if phase.was_hit(STORY, at + 0.5, _SPLITS)]
    assert hits == list(range(first, last))


def test_a_fault_after_which_nothing_went_on_hit_no_phase() -> None:
    assert not any(phase.was_hit(STORY[:-1], 8.5, _SPLITS) for phase in PHASES)


def test_every_fault_has_a_name_of_its_own_and_each_job_one_for_each_phase() -> None:
    names = [fault.name for group in GROUPS for fault in group]
    assert len(set(names)) == len(names) == 20
    assert {len(group) for group in GROUPS} == {len(PHASES)}


def test_the_mix_of_kills_has_the_shares_that_were_asked_for() -> None:
    assert Counter(order(MIX, 40, 1)) == {"worker": 28, "Child": 4, "ps": 4, "AM": 2, "evaluator": 2}
    assert order(MIX, 40, 1) != order(MIX, 40, 2)


def test_percentiles() -> None:
    assert percentile([3.0], 0.95) == 3.0
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert percentile(list(range(101)), 0.95) == 95.0
