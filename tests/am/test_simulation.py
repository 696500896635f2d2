"""2,000 of the random schedules that `make sim` runs 100,000 of, and one large one. docs/simulation.md"""

import json
from pathlib import Path

import pytest

from afo.events import types as ev
from afo.job import Restart, RestartBudget
from afo.rpc.messages import TaskId
from fake_cluster import make_config
from simulation.__main__ import main
from simulation.batch import run_block, told
from simulation.broken import Broken
from simulation.equivalent import why_equivalent
from simulation.ledger import Ledger
from simulation.mutation import ChangeRow, DropRow, all_mutants
from simulation.schedule import run
from simulation.shapes import LEAST_OF_LARGE, MOST_OF_SMALL, large, small

_BLOCK = 100


@pytest.mark.parametrize("block", [*range(4), *(pytest.param(block, marks=pytest.mark.slow) for block in range(4, 20))])
def test_no_schedule_breaks_a_promise(block: int) -> None:
    summary = run_block("small", range(block * _BLOCK, (block + 1) * _BLOCK))
    assert summary.broken == [], "\n\n".join(told(result) for result in summary.stories[:3])
    assert summary.schedules == _BLOCK
    assert len(summary.faults) > 15, "most kinds of faults are there in each block"
    assert summary.outcomes["SUCCEEDED"] > _BLOCK / 2


def test_a_large_schedule() -> None:
    result = run(0, "large")
    assert not result.broken, told(result)
    assert result.outcome


def test_the_command_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    sizes = ["--first", "40", "--small", "3", "--large", "0", "--processes", "1"]
    assert main([*sizes, "--no-mutants", "--report", str(report)]) == 0
    small_ones, large_ones = json.loads(report.read_text())["schedules"]
    assert (small_ones["schedules"], sum(small_ones["outcomes"].values()), large_ones["schedules"]) == (3, 3, 0)
    assert "3 small schedules" in capsys.readouterr().out


def test_sizes() -> None:
    assert max(small(seed).tasks for seed in range(300)) == MOST_OF_SMALL
    assert min(large(seed).tasks for seed in range(20)) >= LEAST_OF_LARGE


def test_a_seed_is_always_the_same_schedule() -> None:
    first, second = run(7, tell=True), run(7, tell=True)
    assert first == second
    assert "TaskRegistered worker:0 (attempt 0)" in first.story


def ended(attempt: int, cause: str) -> ev.TaskEnded:
    return ev.TaskEnded(task=TaskId(role="worker", index=0, attempt=attempt), cause=cause, code=1, message="m")


def requested(attempt: int) -> ev.ContainerRequested:
    return ev.ContainerRequested(task=TaskId(role="worker", index=0, attempt=attempt), memory=1, vcores=1)


def test_the_ledger_says_what_may_not_come_next() -> None:
    ledger = Ledger(make_config(restart=Restart(worker=RestartBudget(max=0))))
    ledger.take(requested(0), 1.0)
    with pytest.raises(Broken, match="beside"):
        ledger.take(requested(1), 2.0)
    ledger.take(ended(0, "aborted"), 3.0)
    with pytest.raises(Broken, match="goes on with ContainerRequested though 1 ends in 1h are more than 0"):
        ledger.take(requested(1), 3.0)
    other = Ledger(make_config())
    other.take(requested(0), 1.0)
    other.take(ended(0, "node_lost"), 2.0)
    with pytest.raises(Broken, match="the job failed though node_lost is retried"):
        other.take(ev.JobEnding(state="FAILED", cause="node_lost", diagnostics="", first_task=requested(0).task), 2.0)


def test_mutants_of_rows() -> None:
    for operator in (DropRow, ChangeRow):
        for example in operator.examples():
            from cosmic_ray.mutating import mutate_code

            assert mutate_code(example.pre_mutation_code, operator(), example.occurrence) == example.post_mutation_code


def test_mutants_are_many_and_each_reason_for_one_that_lives_is_about_one() -> None:
    mutants = all_mutants()
    assert {each.module for each in mutants} == {
        "afo_am.state.tasks",
        "afo_am.policy.restarts",
        "afo_am.state.manual_repair",
        "afo_am.state.split_queue",
        "afo_am.policy.split_discovery",
        "afo_am.state.apply",
        "afo_am.state.job_state",
        "afo_am.core.child_rpc",
        "afo_am.core.training_rpc",
        "afo_am.policy.lifecycle",
    }
    assert sum(each.operator == "DropRow" for each in mutants) >= 9
    assert len(mutants) > 60
    excused = [each for each in mutants if why_equivalent(each.module, each.before, each.after)]
    assert 0 < len(excused) < len(mutants) / 5
