"""Which checkpoints may become versions: the rolling window, what was exported last, restarts."""

from collections.abc import Callable
from statistics import fmean

import hypothesis.strategies as st
import pytest
from hypothesis import given

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Export
from afo.protocol.export_gate import refusals
from afo.rpc import messages as m
from afo_am.state.version_gate import VersionGate
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]
EVALUATOR = m.TaskId(role="evaluator", index=0, attempt=0)
CHIEF = m.TaskId(role="worker", index=0, attempt=0)


def gated(window: int = 1, **require: str) -> Export:
    return Export(every=Duration(30), require=require, require_window=window)


def measured(number: int, **metrics: float) -> ev.Evaluated:
    return ev.Evaluated(task=EVALUATOR, step=number, manifest=f"m{number}", metrics=metrics, final=False)


def exported(number: int, **metrics: float) -> ev.VersionExported:
    return ev.VersionExported(
        task=CHIEF, version=100 + number, parent=None, step=number, manifest=f"m{number}", bytes=1, seconds=1.0,
        metrics=metrics,
    )  # fmt: skip


def allowed(gate: VersionGate) -> str:
    return gate.candidate[-1].manifest if gate.candidate else ""


def test_a_good_evaluation_after_bad_ones_waits_until_the_mean_is_good() -> None:
    gate = VersionGate(gated(3, auc=">=0.75"))
    found = []
    for number, auc in enumerate((0.7, 0.8, 0.8, 0.72, 0.76, 0.76, 0.78)):
        gate.take(measured(number, auc=auc))
        found.append(allowed(gate))
    # The mean so far is that of fewer than three: 0.7, 0.75, 0.767, 0.773, 0.76, 0.747, 0.767.
    assert found == ["", "m1", "m2", "m2", "m4", "m4", "m6"]
    withheld = gate.withheld(gate.window)
    assert withheld is None


def test_what_is_withheld_names_metric_value_bound_window_and_the_version_before() -> None:
    gate = VersionGate(gated(2, auc=">=0.75", auc_drop="<=0.01"))
    gate.take(measured(1, auc=0.8))
    gate.note_version(exported(1, auc=0.8))
    gate.take(measured(2, auc=0.78))
    withheld = gate.withheld(gate.window)
    assert withheld is not None
    assert (withheld.step, withheld.manifest, withheld.since) == (2, "m2", 101)
    [drop] = withheld.checks
    assert (drop.metric, drop.bound, drop.evaluations) == ("auc_drop", "<=0.01", 2)
    assert (drop.value, drop.mean) == (pytest.approx(0.02), pytest.approx(0.01))
    assert allowed(gate) == "", "the first one is exported already"


def test_one_that_was_good_enough_for_an_earlier_version_is_judged_by_the_newest() -> None:
    gate = VersionGate(gated(auc_drop="<=0.01"))
    gate.note_version(exported(1, auc=0.79))
    gate.take(measured(2, auc=0.8))
    gate.take(measured(3, auc=0.785))
    assert allowed(gate) == "m3"
    gate.note_version(exported(2, auc=0.8))  # its export was under way meanwhile
    assert gate.candidate is not None
    withheld = gate.withheld(gate.candidate)
    assert withheld is not None
    gate.note_withheld(withheld)
    assert allowed(gate) == ""
    gate.take(measured(4, auc=0.795))
    assert allowed(gate) == "m4"


def test_a_checkpoint_that_is_measured_again_counts_once() -> None:
    gate = VersionGate(gated(2, auc=">=0.75"))
    for number, auc in ((1, 0.7), (2, 0.79), (2, 0.79)):
        gate.take(measured(number, auc=auc))
    assert [each.manifest for each in gate.window] == ["m1", "m2"]
    assert allowed(gate) == ""


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("measure"), st.integers(0, 100)),
        st.tuples(st.just("measure again"), st.integers(0, 100)),
        st.tuples(st.just("export"), st.just(0)),
    ),
    max_size=40,
)


@given(steps=STEPS, window=st.integers(1, 6))
def test_no_version_violates_a_bound_by_itself_or_by_its_window_whatever_happens(
    steps: list[tuple[str, int]], window: int
) -> None:
    gate = VersionGate(gated(window, auc=">=0.5", auc_drop="<=0.1"))
    values: list[float] = []
    last: float | None = None
    for what, percent in steps:
        if what == "export":
            if gate.candidate is None or (withheld := gate.withheld(gate.candidate)):
                if gate.candidate is not None:
                    assert withheld is not None
                    gate.note_withheld(withheld)
                continue
            own = gate.candidate[-1]
            place, auc = own.step, own.metrics["auc"]
            mean = fmean(values[max(0, place - window + 1) : place + 1])
            assert auc >= 0.5
            assert mean >= 0.5 - 1e-9
            if last is not None:
                assert max(last - auc, last - mean) <= 0.1 + 1e-9
            last = auc
            gate.note_version(exported(place, auc=auc))
            assert gate.candidate is None
        else:
            again = what == "measure again" and values
            values = [*values[:-1], percent / 100] if again else [*values, percent / 100]
            gate.take(measured(len(values) - 1, auc=values[-1]))
        assert len(gate.window) == min(window, len(values))


def settled(cluster: FakeCluster) -> FakeTask:
    for _ in range(8):
        cluster.turn()
    return cluster.live("evaluator")[0]


def report(cluster: FakeCluster, evaluator: FakeTask, number: int, *, final: bool = False, **metrics: float) -> None:
    cluster.tell(
        m.EvalReport(
            task=evaluator.id, generation=1, step=number, manifest=f"e{number}", metrics=metrics, final=final
        )
    )  # fmt: skip


def asked(cluster: FakeCluster) -> m.VersionReply:
    reply = cluster.tell(m.VersionRequest(task=cluster.core.state.chief.id, generation=1))
    assert isinstance(reply, m.VersionReply)
    return reply


def test_the_chief_is_told_what_may_leave_and_the_log_what_may_not_over_a_restart(make_cluster: Make) -> None:
    export = Export(every=Duration(30), require={"auc": ">=0.75"}, require_window=3, checkpoint="last")
    cluster = make_cluster(make_config(files=40, export=export))
    evaluator = settled(cluster)
    report(cluster, evaluator, 1, auc=0.76)
    assert asked(cluster) == m.VersionReply(manifest="e1", metrics={"auc": 0.76})
    chief = cluster.core.state.chief.id
    cluster.tell(
        m.VersionReport(
            task=chief, generation=1, version=7, parent=None, step=1, manifest="e1", bytes=1, seconds=1.0,
            metrics={"auc": 0.76},
        )
    )  # fmt: skip
    assert asked(cluster) == m.VersionReply()
    report(cluster, evaluator, 2, auc=0.7)
    report(cluster, evaluator, 3, auc=0.77)
    withheld = cluster.events(ev.VersionWithheld)
    assert [(each.step, each.since) for each in withheld] == [(2, 7), (3, 7)]
    assert [note for note in cluster.core.state.evaluations.notes.sentences if "no version" in note] == [
        "no version is exported of 2 checkpoints in a row, the last of step 3: auc 0.77 is within >=0.75; its mean over"
        " the last 3 evaluations, 0.743333, is not"
    ]
    assert asked(cluster) == m.VersionReply()
    cluster.start_am()
    before = cluster.core.state.evaluations.gate
    assert [each.step for each in before.window] == [1, 2, 3]
    report(cluster, evaluator, 4, auc=0.78)
    assert asked(cluster).manifest == "e4"
    assert "e4" in cluster.core.state.evaluations.list_protected({})
    report(cluster, evaluator, 5, final=True, auc=0.751)
    assert len(cluster.events(ev.VersionWithheld)) == 2, "what becomes of the final one is decided at the end"
    decision = cluster.tell(m.ExportRequest(task=chief, generation=1))
    assert isinstance(decision, m.ExportReply)
    assert decision.state == "export"


def test_the_last_version_goes_through_the_same_window(make_cluster: Make) -> None:
    export = Export(every=Duration(30), require={"auc": ">=0.75"}, require_window=3, checkpoint="last")
    cluster = make_cluster(make_config(files=40, export=export))
    evaluator = settled(cluster)
    for number, auc in ((1, 0.7), (2, 0.7)):
        report(cluster, evaluator, number, auc=auc)
    report(cluster, evaluator, 3, final=True, auc=0.8)
    decision = cluster.tell(m.ExportRequest(task=cluster.core.state.chief.id, generation=1))
    assert isinstance(decision, m.ExportReply)
    assert decision.state == "refused"
    assert decision.reasons == (
        "auc 0.8 is within >=0.75; its mean over the last 3 evaluations, 0.733333, is not",
    )  # fmt: skip
    assert refusals(cluster.events(ev.ExportDecided)[0].checks) == list(decision.reasons)


def exported_without_metrics(cluster: FakeCluster, version: int, step: int) -> ev.VersionExported:
    """What is recorded of a version of which the chief knows no evaluation."""
    for _ in range(2):
        cluster.tell(
            m.VersionReport(
                task=cluster.core.state.chief.id, generation=1, version=version, parent=None, step=step,
                manifest=f"e{step}", bytes=1, seconds=None,
            )
        )  # fmt: skip
    [recorded] = [each for each in cluster.events(ev.VersionExported) if each.version == version]
    return recorded


def test_a_version_that_was_not_reported_when_it_was_exported_is_what_later_ones_are_compared_with(
    make_cluster: Make,
) -> None:
    export = Export(every=Duration(30), require={"auc": ">=0.7", "auc_drop": "<=0.01"}, checkpoint="last")
    cluster = make_cluster(make_config(files=40, export=export))
    evaluator = settled(cluster)
    for number, auc in enumerate((0.76, 0.8, 0.75, 0.77), 1):
        report(cluster, evaluator, number, auc=auc)
    cluster.start_am()
    assert asked(cluster).manifest == "e4"
    found = exported_without_metrics(cluster, 7, 2)  # a newer one passed meanwhile
    assert (found.seconds, found.metrics) == (None, {"auc": 0.8})
    ready = cluster.tell(m.ReadyRequest(task=cluster.core.state.chief.id, generation=1))
    assert isinstance(ready, m.ReadyReply)
    assert ready.exported_version == 7
    assert asked(cluster) == m.VersionReply()
    [withheld] = cluster.events(ev.VersionWithheld)
    assert (withheld.step, withheld.since) == (4, 7)


def test_the_gates_last_word_stands_once_the_last_version_is_exported(make_cluster: Make) -> None:
    export = Export(every=Duration(30), require={"auc_drop": "<=0.01"}, checkpoint="last")
    cluster = make_cluster(make_config(files=40, export=export))
    evaluator = settled(cluster)
    report(cluster, evaluator, 1, auc=0.8)
    exported_without_metrics(cluster, 7, 1)
    report(cluster, evaluator, 2, final=True, auc=0.795)
    request = m.ExportRequest(task=cluster.core.state.chief.id, generation=1)
    decision = cluster.tell(request)
    assert exported_without_metrics(cluster, 8, 2).metrics == {"auc": 0.795}
    cluster.start_am()
    assert cluster.tell(request) == decision, "the chief was started again"
    [decided] = cluster.events(ev.ExportDecided)
    assert decided.checks[0].value == pytest.approx(0.005)
    assert cluster.core.state.evaluations.gate.exported_version == 8
