"""`checkpoint.on_ps_loss: partial`: the servers that are left go on with what they hold, and so do the data."""

from collections.abc import Callable

import pytest

from afo.errors import AfoError
from afo.events import types as ev
from afo.job import Checkpoint, Data, Job, RoleSpec
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am.state.tasks import Stage
from fake_cluster import FakeCluster, FakeTask, make_config
from journaled_state import journaled_state

Make = Callable[..., FakeCluster]


def config(ps: int = 3, **settings: object) -> AmConfig:
    return make_config(ps=ps, files=40, checkpoint=Checkpoint(on_ps_loss="partial"), **settings)


def until_saved(cluster: FakeCluster, beyond: int = 2) -> FakeCluster:
    """Something is saved, and files were applied after it."""
    while True:
        cluster.turn()
        newest = cluster.core.state.newest_manifest
        if newest and len(cluster.model.applied) >= len(cluster.model.saved[newest]) + beyond:
            return cluster


def server(cluster: FakeCluster, index: int) -> FakeTask:
    (found,) = [child for child in cluster.live("ps") if child.id.index == index]
    return found


def until_ready(cluster: FakeCluster) -> ev.VariablesReady:
    """The next generation has its variables."""
    seen = len(cluster.events(ev.VariablesReady))
    while len(cluster.events(ev.VariablesReady)) == seen:
        cluster.turn()
    (*_, ready) = cluster.events(ev.VariablesReady)
    assert isinstance(ready, ev.VariablesReady)
    return ready


def kept(cluster: FakeCluster) -> list[tuple[int, ...]]:
    return [event.kept for event in cluster.events(ev.GenerationEnded)]  # type: ignore[attr-defined]


def every_split_once(cluster: FakeCluster) -> None:
    assert cluster.run() == "SUCCEEDED"
    expected = {(split, epoch) for split in range(40) for epoch in range(2)}
    assert cluster.model.applied == dict.fromkeys(expected, 1)


@pytest.mark.parametrize("in_place", [True, False])
def test_the_others_go_on_with_what_they_hold(make_cluster: Make, *, in_place: bool) -> None:
    cluster = until_saved(make_cluster(config()))
    processes = {index: server(cluster, index).process for index in range(3)}
    manifest, done = cluster.core.state.newest_manifest, cluster.core.state.splits.done
    if in_place:
        cluster.fail(server(cluster, 1), "killed_by_signal", -9)
    else:
        cluster.end_container(server(cluster, 1).handle)
    ready = until_ready(cluster)
    assert kept(cluster) == [(0, 2)]
    assert (ready.kept, ready.restored) == ((0, 2), manifest)
    assert {index: server(cluster, index).process == processes[index] for index in range(3)} == {
        0: True, 1: False, 2: True,
    }  # fmt: skip
    before, after = (event.ps for event in cluster.events(ev.GenerationStarted))  # type: ignore[attr-defined]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]
    assert cluster.core.state.splits.done >= done, "what is done stays done"
    every_split_once(cluster)


def test_the_loss_is_what_was_applied_after_the_checkpoint(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    saved = cluster.model.saved[cluster.core.state.newest_manifest]
    cluster.fail(server(cluster, 2), "killed_by_signal", -9)
    ready = until_ready(cluster)
    lost = sum(10 + split for split, epoch in cluster.model.applied if (split, epoch) not in saved)
    assert ready.lost_samples == lost > 0
    (note,) = cluster.core.state.evaluations.notes.sentences
    assert f"the updates of {lost:,} samples are missing" in note
    assert "ps:0, ps:1 kept what they held" in note


def test_a_file_that_was_being_read_is_given_out_again_where_it_stands(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    while not cluster.core.state.splits.leases:
        cluster.turn()
    rows = set(cluster.core.state.splits.leases)
    epochs = {split: cluster.core.state.splits.completed[split] for split in rows}
    cluster.fail(server(cluster, 2), "killed_by_signal", -9)
    assert not cluster.core.state.splits.leases
    seen = len(cluster.events(ev.SplitLeased))
    every_split_once(cluster)
    again = cluster.events(ev.SplitLeased)[seen:]
    for split in rows:
        first = next(event for event in again if event.split == split)  # type: ignore[attr-defined]
        assert (first.epoch, first.resume) == (epochs[split], True)  # type: ignore[attr-defined]


def test_without_a_checkpoint_all_begin_anew_and_the_log_says_why(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    while not cluster.core.state.ready:
        cluster.turn()
    cluster.fail(server(cluster, 1), "killed_by_signal", -9)
    (ended,) = cluster.events(ev.GenerationEnded)
    assert isinstance(ended, ev.GenerationEnded)
    assert (ended.kept, ended.manifest) == ((), "")
    assert ended.reason.endswith("no partial recovery: there is no checkpoint yet")
    every_split_once(cluster)
    assert [ready.kept for ready in cluster.events(ev.VariablesReady)] == [(), ()]  # type: ignore[attr-defined]


def test_rollback_is_what_it_was(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(make_config(ps=3, files=40)))
    cluster.fail(server(cluster, 1), "killed_by_signal", -9)
    ready = until_ready(cluster)
    (ended,) = cluster.events(ev.GenerationEnded)
    assert (ended.kept, ready.kept, ready.lost_samples) == ((), (), 0)  # type: ignore[attr-defined]
    assert "partial" not in ended.reason  # type: ignore[attr-defined]
    assert {server(cluster, index).generation for index in range(3)} == {2}
    every_split_once(cluster)


def test_two_that_are_lost_at_once_are_both_restored(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config(ps=4)))
    for index in (3, 1):
        cluster.end_container(server(cluster, index).handle)
    ready = until_ready(cluster)
    assert kept(cluster)[-1] == ready.kept == (0, 2)
    every_split_once(cluster)


def test_one_that_is_lost_before_the_first_is_back_is_restored_with_it(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    first = server(cluster, 2)
    cluster.fail(first, "killed_by_signal", -9)
    cluster.turn()
    cluster.fail(server(cluster, 1), "killed_by_signal", -9)
    ready = until_ready(cluster)
    assert kept(cluster) == [(0, 1), (0,)]
    assert ready.kept == (0,)
    assert [str(end.task) for end in cluster.events(ev.ProcessEnded)] == ["ps:2", "ps:1"]  # type: ignore[attr-defined]
    every_split_once(cluster)


def test_one_that_is_lost_again_while_it_is_restored_changes_nothing_for_the_others(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    processes = [server(cluster, index).process for index in (0, 1)]
    cluster.fail(server(cluster, 2), "killed_by_signal", -9)
    while not cluster.core.state.cluster:
        cluster.turn()
    assert not cluster.core.state.ready
    cluster.end_container(server(cluster, 2).handle)
    assert until_ready(cluster).kept == (0, 1)
    assert kept(cluster) == [(0, 1), (0, 1)]
    assert [server(cluster, index).process for index in (0, 1)] == processes
    every_split_once(cluster)


@pytest.mark.parametrize(
    ("servers", "lost", "why"),
    [
        (3, (0, 1), "the data position is lost with ps:0 and ps:1"),
        (2, (1, 0), "no parameter server is left that holds its variables"),
    ],
)
def test_who_has_lost_too_much_goes_back_as_a_whole(
    make_cluster: Make, servers: int, lost: tuple[int, ...], why: str
) -> None:
    cluster = until_saved(make_cluster(config(ps=servers)))
    for index in lost:
        cluster.fail(server(cluster, index), "killed_by_signal", -9)
    ended = cluster.events(ev.GenerationEnded)[-1]
    assert isinstance(ended, ev.GenerationEnded)
    assert ended.kept == ()
    assert ended.reason.endswith(why)
    ready = until_ready(cluster)
    assert (ready.kept, ready.restored) == ((), ended.manifest)
    assert {child.generation for child in cluster.live("ps")} == {3}
    every_split_once(cluster)


def test_a_restarted_master_knows_who_holds_what(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    processes = [server(cluster, index).process for index in (0, 2)]
    cluster.fail(server(cluster, 1), "killed_by_signal", -9)
    before = journaled_state(cluster.core)
    cluster.start_am()
    after = journaled_state(cluster.core)
    assert {key for key in before if before[key] != after[key]} == {"incarnation", "masters"}
    ready = until_ready(cluster)
    cluster.start_am()
    assert ready.kept == (0, 2)
    assert [server(cluster, index).process for index in (0, 2)] == processes
    every_split_once(cluster)


def test_a_worker_that_has_finished_comes_back_only_for_a_rollback(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config(workers=4)))
    while not any(str(end.task) == "worker:3" for end in cluster.events(ev.TaskEnded)):  # type: ignore[attr-defined]
        cluster.turn()
    assert cluster.core.state.chief.stage is not Stage.SUCCEEDED
    for index, comes_back in ((2, False), (1, False), (0, True)):
        cluster.fail(server(cluster, index), "killed_by_signal", -9)
        assert (cluster.core.state.tasks["worker", 3].stage is not Stage.SUCCEEDED) == comes_back
    assert cluster.run() == "SUCCEEDED"


def test_the_loss_of_all_containers_is_a_rollback(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    cluster.lose_am_container()
    assert kept(cluster)[-1] == ()
    assert until_ready(cluster).kept == ()
    every_split_once(cluster)


def test_a_late_word_of_a_process_that_ended_before_does_not_count(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    cluster.fail(server(cluster, 1), "killed_by_signal", -9)
    until_ready(cluster)
    report = m.ExitReport(
        task=server(cluster, 1).id, generation=1, code=-9, cause="killed_by_signal", tail="", stays=True, number=2
    )
    assert cluster.tell(report) == m.ExitReply(stays=True)
    assert len(cluster.events(ev.ProcessEnded)) == 1
    every_split_once(cluster)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"roles": {"ps": RoleSpec(), "worker": RoleSpec()}}, "needs 2 `ps`"),
        ({"program": "train.py"}, "is for a `model`"),
    ],
)
def test_a_job_that_could_keep_nothing_is_refused(settings: dict[str, object], words: str) -> None:
    roles = {"ps": RoleSpec(instances=2), "worker": RoleSpec()}
    with pytest.raises((ValueError, AfoError), match=words):
        Job(
            **{"name": "test", "roles": roles, "data": Data(train=("a",)), **settings},  # type: ignore[arg-type]
            checkpoint=Checkpoint(on_ps_loss="partial"),
        )
