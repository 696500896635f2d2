"""Early stop, the best checkpoint and the quality gate: what the core makes of evaluations."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo.errors import ProtocolError
from afo.events import types as ev
from afo.events.model_notes import notes_of
from afo.formats.units import Interval
from afo.job import EarlyStop, Export, Train
from afo.protocol.export_gate import Fall
from afo.rpc import messages as m
from afo_am.state.evaluations import Evaluations
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]
OFTEN = Interval("10m")
EVALUATOR = m.TaskId(role="evaluator", index=0, attempt=0)


def measured(number: int, *, final: bool = False, falls: tuple[Fall, ...] = (), **metrics: float) -> ev.Evaluated:
    return ev.Evaluated(
        task=EVALUATOR, step=number, manifest=f"m{number}", metrics=metrics, final=final, falls=falls
    )  # fmt: skip


def taken(evaluations: Evaluations, *events: ev.Evaluated) -> Evaluations:
    for event in events:
        evaluations.take(event)
    return evaluations


@pytest.mark.parametrize(
    ("metric", "values", "best"), [("auc", (0.7, 0.8, 0.75), "m1"), ("log_loss", (0.5, 0.4, 0.3, 0.6), "m2")]
)
def test_the_best_is_the_greatest_auc_or_the_least_log_loss(metric: str, values: tuple[float, ...], best: str) -> None:
    events = [measured(number, **{metric: value}) for number, value in enumerate(values)]
    evaluations = taken(Evaluations(Export(checkpoint="best", metric=metric), None, OFTEN), *events)
    assert evaluations.best is not None
    assert evaluations.best.manifest == best
    assert evaluations.candidate is None, "the final one was not measured yet"
    taken(evaluations, measured(9, final=True, **{metric: values[-1]}))
    assert evaluations.candidate is not None
    assert evaluations.candidate.manifest == best


def test_checkpoints_that_were_not_evaluated_are_told_once_with_their_number() -> None:
    evaluations = Evaluations(Export(), None, OFTEN)
    taken(evaluations, measured(1, auc=0.7))
    assert evaluations.notes.sentences == ()
    for number, passed_over, words in ((4, 1, "a checkpoint was"), (9, 1200, "1,201 checkpoints were")):
        taken(evaluations, replace(measured(number, auc=0.7), passed_over=passed_over))
        (note,) = evaluations.notes.sentences
        assert note.startswith(f"{words} not evaluated, as newer ones came"), note


def test_of_equals_the_final_one_is_the_best() -> None:
    evaluations = Evaluations(Export(checkpoint="best"), None, OFTEN)
    taken(evaluations, measured(1, log_loss=0.4), measured(2, log_loss=0.4), measured(2, final=True, log_loss=0.4))
    assert evaluations.candidate is not None
    assert evaluations.candidate.final


def test_a_model_that_fell_since_its_best_is_told() -> None:
    evaluations = Evaluations(Export(checkpoint="best"), None, OFTEN)
    taken(evaluations, measured(1, log_loss=0.4), measured(2, final=True, log_loss=0.5))
    assert evaluations.candidate is not None
    decision = evaluations.decision(evaluations.candidate)
    assert notes_of(decision) == (
        "the checkpoint of step 1 is exported: its log_loss is the best, 0.4; it was 0.5 at the end, step 2",
    )
    last = Evaluations(Export(), None, OFTEN)
    taken(last, measured(1, log_loss=0.4), measured(2, final=True, log_loss=0.5))
    assert last.candidate is not None
    assert (last.candidate.step, notes_of(last.decision(last.candidate))) == (2, ())


def test_the_best_and_what_was_not_measured_yet_is_protected() -> None:
    evaluations = Evaluations(Export(checkpoint="best"), None, OFTEN)
    everything = {"m0": 0, "m1": 1, "m2": 2, "m3": 3, "m4": 4}
    assert evaluations.list_protected(everything) == tuple(everything)
    taken(evaluations, measured(1, log_loss=0.3), measured(3, log_loss=0.4))
    assert evaluations.list_protected(everything) == ("m1", "m4")
    assert Evaluations(Export(), None, OFTEN).list_protected(everything) == ()


def test_what_is_saved_between_two_evaluations_by_steps_is_not_protected() -> None:
    evaluations = Evaluations(Export(checkpoint="best"), None, Interval.parse("100 steps"))
    steps = {f"m{step}": step for step in (50, 101, 150, 199, 200, 250, 301)}
    assert evaluations.list_protected(steps) == ("m101", "m200", "m301")
    taken(evaluations, measured(101, log_loss=0.3))
    assert evaluations.list_protected(steps) == ("m101", "m200", "m301")
    back = steps | {"m120": 120, "m205": 205}
    assert evaluations.list_protected(back) == ("m101", "m200", "m301", "m120", "m205")


def test_early_stop_counts_evaluations_without_a_gain() -> None:
    evaluations = Evaluations(Export(), EarlyStop(patience=2, min_delta=0.01), OFTEN)
    taken(evaluations, measured(0, auc=0.70), measured(1, auc=0.705))
    assert evaluations.without_gain == 1
    taken(evaluations, measured(1, auc=0.705))
    assert evaluations.without_gain == 1, "the same checkpoint measured by another evaluator"
    taken(evaluations, measured(2, auc=0.72), measured(3, auc=0.7), measured(4))
    assert evaluations.exhausted, "an evaluation that has no such metric is none that is better"


def settle(cluster: FakeCluster, turns: int = 8) -> FakeTask:
    """Until the tasks train; returns the evaluator."""
    for _ in range(turns):
        cluster.turn()
    (evaluator,) = cluster.live("evaluator")
    return evaluator


def report(cluster: FakeCluster, evaluator: FakeTask, number: int, final: bool = False, **metrics: float) -> None:
    cluster.tell(
        m.EvalReport(
            task=evaluator.id, generation=1, step=number, manifest=f"e{number}", metrics=metrics, final=final,
            falls=(Fall("city", 0.9, 0.2),),
        )
    )  # fmt: skip


def test_a_job_that_gets_no_better_ends_as_one_that_made_all_its_steps(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=40, train=Train(early_stop=EarlyStop(patience=2))))
    evaluator = settle(cluster)
    for number, auc in enumerate((0.7, 0.8, 0.79, 0.8)):
        report(cluster, evaluator, number, auc=auc)
    worker = cluster.live("worker")[0]
    ready = cluster.tell(m.ReadyRequest(task=worker.id, generation=1))
    assert isinstance(ready, m.ReadyReply)
    assert ready.stop
    assert cluster.run() == "SUCCEEDED"
    (stopped,) = cluster.events(ev.StoppedEarly)
    assert (stopped.metric, stopped.best, stopped.evaluations, stopped.step) == ("auc", 0.8, 2, 3)
    (finished,) = cluster.events(ev.JobFinished)
    assert finished.diagnostics == "stopped early, as `train.early_stop` says"
    assert len(cluster.core.state.splits.totals) < 80, "not all was read"


def test_max_steps_count_from_the_step_that_a_warm_start_brought(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster(make_config(train=Train(max_steps=50)))
    monkeypatch.setattr(cluster, "_train", lambda child: None)
    settle(cluster)
    chief = cluster.core.state.chief.id
    begun = m.WarmStart(source="hdfs://x/m", kept=("user (deep)",), made_new=("city: new feature",))
    cluster.tell(m.ReadyReport(task=chief, generation=1, step=10**9, warm_start=begun))
    reply = cluster.tell(m.SplitRequest(task=chief, generation=1))
    assert isinstance(reply, m.SplitReply)
    assert reply.state == "lease"
    ready = cluster.tell(m.ReadyRequest(task=chief, generation=1))
    assert isinstance(ready, m.ReadyReply)
    assert ready.first_step == 10**9
    (event,) = cluster.events(ev.WarmStarted)
    assert (event.source, event.step, event.made_new) == ("hdfs://x/m", 10**9, ("city: new feature",))
    assert "1 parts kept; made new: city: new feature" in cluster.core.state.evaluations.notes.sentences[0]


def asked(cluster: FakeCluster) -> m.ExportReply:
    reply = cluster.tell(m.ExportRequest(task=cluster.core.state.chief.id, generation=1))
    assert isinstance(reply, m.ExportReply)
    return reply


def test_the_gate_waits_for_the_final_evaluation_and_decides_once(make_cluster: Make) -> None:
    require = {"auc": ">=0.74", "coverage_drop": "<=0.1"}
    cluster = make_cluster(make_config(files=40, export=Export(require=require)))
    evaluator = settle(cluster)
    report(cluster, evaluator, 1, auc=0.9, coverage_drop=0.0)
    assert asked(cluster).state == "wait"
    report(cluster, evaluator, 2, final=True, auc=0.8, coverage_drop=0.7)
    for _ in range(2):
        reply = asked(cluster)
        assert (reply.state, reply.manifest) == ("refused", "e2")
        assert len(reply.reasons) == 1
        assert "feature `city` was in 90.0% of the records and is in 20.0%" in reply.reasons[0]
    (decided,) = cluster.events(ev.ExportDecided)
    assert not decided.allowed
    assert not cluster.core.state.evaluations.exported
    assert [each.passed for each in decided.checks] == [True, False]
    with pytest.raises(ProtocolError):
        cluster.tell(m.ExportRequest(task=cluster.core.state.chief.id, generation=7))


def test_a_refused_model_fails_the_job_and_is_not_tried_again(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=40, export=Export(require={"auc": ">=0.99"})))
    settle(cluster)
    chief = next(child for child in cluster.live("worker") if child.directive and child.directive.is_chief)
    cluster.exit(chief, "quality_gate", 1, "afo.errors.GateRefused: auc 0.8 is not within >=0.99")
    assert cluster.run() == "FAILED"
    (finished,) = cluster.events(ev.JobFinished)
    assert finished.cause == "quality_gate"
    assert "auc 0.8 is not within >=0.99" in finished.diagnostics


def test_the_best_checkpoint_is_exported(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=40, export=Export(checkpoint="best", metric="log_loss")))
    evaluator = settle(cluster)
    for number, loss in enumerate((0.5, 0.3, 0.4)):
        report(cluster, evaluator, number, final=number == 2, log_loss=loss)
    assert asked(cluster) == m.ExportReply(state="export", manifest="e1")
    report(cluster, evaluator, 2, final=True, log_loss=0.4)  # once more, by one that was started again
    found = cluster.core.state.evaluations
    assert (found.exported, found.metrics) == ("e1", {"log_loss": 0.3})
