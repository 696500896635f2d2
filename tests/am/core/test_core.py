"""The deciding core against a fake cluster."""

import itertools
import math
from collections.abc import Callable

import msgspec
import pytest

from afo.errors import PermissionDenied, ProtocolError
from afo.events import event_log
from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Restart, RestartBudget, Timeouts
from afo.rpc import messages as m
from afo_am.engine.status import status_of
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]


def every_split_once(cluster: FakeCluster) -> None:
    """The surviving history applied each (split, epoch) exactly once, and acknowledged it."""
    rows, epochs = len(cluster.config.train_files), cluster.config.job.data.epochs
    expected = {(split, epoch) for split in range(rows) for epoch in range(epochs)}
    assert cluster.model.applied == dict.fromkeys(expected, 1)
    assert set(cluster.core.state.splits.totals) == expected


def failures(cluster: FakeCluster) -> list[ev.TaskEnded]:
    """Ends of tasks that were failures."""
    ends = [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]
    return [end for end in ends if end.cause not in ("succeeded", "ended_with_job")]


def test_an_undisturbed_job_succeeds(make_cluster: Make) -> None:
    cluster = make_cluster()
    assert cluster.run() == "SUCCEEDED"
    every_split_once(cluster)
    finished = cluster.events(ev.JobFinished)
    assert len(finished) == 1
    assert finished[0].metrics == {"auc": 0.9}
    assert finished[0].restarts == 0
    assert finished[0].core_hours > 0


@pytest.mark.parametrize("role", ["worker", "ps", "evaluator"])
def test_a_killed_container_comes_back_with_role_and_index(make_cluster: Make, role: str) -> None:
    cluster = make_cluster()

    def kill_once(cluster: FakeCluster, turn: int) -> None:
        if turn == 8:
            cluster.end_container(cluster.live(role)[-1].handle, "Container killed on request.")

    assert cluster.run(each=kill_once) == "SUCCEEDED"
    every_split_once(cluster)
    (ended,) = failures(cluster)
    again = [e.task for e in cluster.events(ev.ContainerRequested) if e.task.attempt == 1]
    assert again == [m.TaskId(role=role, index=ended.task.index, attempt=1)]
    assert bool(cluster.events(ev.GenerationEnded)) == (role == "ps")


def test_a_lost_parameter_server_returns_the_job_to_its_newest_manifest(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=20))

    def kill_after_checkpoint(cluster: FakeCluster, turn: int) -> None:
        if len(cluster.model.saved) == 3 and cluster.core.state.generation == 1:
            cluster.end_container(cluster.live("ps")[0].handle)

    assert cluster.run(each=kill_after_checkpoint) == "SUCCEEDED"
    (ended,) = cluster.events(ev.GenerationEnded)
    assert ended.manifest == "manifest-2"
    assert [e.restored for e in cluster.events(ev.VariablesReady)] == ["", "manifest-2"]
    every_split_once(cluster)


def test_a_damaged_manifest_takes_the_data_further_back_and_everybody_is_told(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=20))

    def kill_after_checkpoint(cluster: FakeCluster, turn: int) -> None:
        if len(cluster.model.saved) == 3 and cluster.core.state.generation == 1:
            cluster.model.damaged = {"manifest-2"}
            cluster.end_container(cluster.live("ps")[0].handle)

    assert cluster.run(each=kill_after_checkpoint) == "SUCCEEDED"
    _, ready = cluster.events(ev.VariablesReady)
    assert (ready.restored, ready.passed_over) == ("manifest-1", ("manifest-2 is damaged",))
    assert "restore: passed over: manifest-2 is damaged" in cluster.core.state.evaluations.notes.sentences
    every_split_once(cluster)


def test_a_restarted_am_goes_on_without_asking_for_containers_again(make_cluster: Make) -> None:
    cluster = make_cluster()
    for _ in range(8):
        cluster.turn()
    before = set(cluster.containers)
    cluster.start_am()
    cluster.turn()
    assert set(cluster.containers) == before
    assert cluster.run() == "SUCCEEDED"
    every_split_once(cluster)


def test_a_request_lost_with_the_am_is_made_again_and_its_stray_container_ended(make_cluster: Make) -> None:
    cluster = make_cluster()
    del cluster.log[-1]  # the AM died between the request and the journal's word of its handle
    stray = list(cluster.containers)[-1]
    cluster.start_am()
    cluster.turn()
    assert stray in cluster.killed
    assert [end.cause for end in failures(cluster)] == ["request_unanswered"]
    assert cluster.run() == "SUCCEEDED"
    assert cluster.core.state.finished is not None
    assert cluster.core.state.finished.restarts == 0, "nothing had run"


def test_another_attempt_of_the_application_asks_for_every_task_again(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=20))
    for _ in range(12):
        cluster.turn()
    done = cluster.core.state.splits.done
    cluster.lose_am_container()
    assert len(cluster.containers) == 5
    lost = failures(cluster)
    assert [end.cause for end in lost] == ["application_attempt_lost"] * 5
    words = "YARN ended it with application attempt 1, whose Application Master on a was last seen "
    assert all(end.message.startswith(words) for end in lost)
    master = status_of(cluster.core, "local_1_0001", cluster.time).master
    assert master == m.MasterStart(number=1, attempt=2, host="a", was_on="a", time=cluster.time, tasks=5)
    assert cluster.run() == "SUCCEEDED"
    every_split_once(cluster)
    assert done > 0
    assert all(not task.running_since for task in cluster.core.state.tasks.values())


def test_kill_ends_everything_and_says_by_whom(make_cluster: Make) -> None:
    cluster = make_cluster()
    for _ in range(6):
        cluster.turn()
    cluster.tell(m.KillRequest(user="bob", reason="wrong data"))
    assert cluster.run() == "KILLED"
    assert not cluster.live()
    assert "bob" in cluster.finished.diagnostics
    assert "wrong data" in cluster.finished.diagnostics


def test_the_restart_budget_is_kept(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=50, restart=Restart(worker=RestartBudget(max=2))))

    def crash(cluster: FakeCluster, turn: int) -> None:
        for child in cluster.live("worker"):
            if child.running and child.id.index == 1:
                cluster.exit(child, "segmentation_fault", -11)

    assert cluster.run(each=crash) == "FAILED"
    assert "restart.worker" in cluster.finished.diagnostics
    assert sum(e.cause == "segmentation_fault" for e in cluster.events(ev.TaskEnded)) == 3


def test_a_silent_child_is_replaced(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=60))
    for _ in range(6):
        cluster.turn()
    mute = cluster.live("worker")[1]
    turn = cluster._child_turn
    cluster._child_turn = lambda child: None if child is mute else turn(child)  # type: ignore[method-assign]
    assert cluster.run() == "SUCCEEDED"
    assert mute.handle in cluster.killed
    assert [e.cause for e in failures(cluster)] == ["child_silent"]


def test_an_am_that_stood_still_takes_nobody_for_silent(make_cluster: Make) -> None:
    """Its first look at the clock comes before the heartbeats that waited for it."""
    cluster = make_cluster(make_config(files=60))
    for _ in range(6):
        cluster.turn()
    cluster.time += 45
    cluster.poll()
    assert cluster.run() == "SUCCEEDED"
    assert not failures(cluster)


def test_another_version_in_the_container_is_named(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.allocate()
    child = cluster.live()[0]
    request = cluster._registration(child)
    cluster.tell(
        m.RegisterRequest(**{f: getattr(request, f) for f in request.__struct_fields__} | {"afo_version": "9.9"})
    )
    assert cluster.run() == "FAILED"
    assert "afo 9.9" in cluster.finished.diagnostics


def test_a_metric_that_is_no_number_does_not_make_the_journal_unreadable(make_cluster: Make) -> None:
    cluster = make_cluster()
    for _ in range(4):
        cluster.turn()
    task = cluster.live("evaluator")[0].id
    metrics = {"auc": math.nan, "log_loss": 0.5, "calibration": math.inf}
    cluster.tell(m.EvalReport(task=task, generation=1, step=1, manifest="m", metrics=metrics))
    record = event_log.Record(seq=1, am_attempt=1, incarnation=1, time=1.0, event=cluster.log[-1][0])
    assert event_log.decode_line(event_log.encode_line(record)) == record
    assert cluster.core.state.evaluations.metrics == {"log_loss": 0.5}


def test_messages_of_an_ended_generation_are_refused(make_cluster: Make) -> None:
    cluster = make_cluster()
    for _ in range(6):
        cluster.turn()
    worker = cluster.live("worker")[0]
    cluster.end_container(cluster.live("ps")[0].handle)
    cluster.poll()
    with pytest.raises(ProtocolError, match="generation 1 has ended"):
        cluster.tell(m.SplitRequest(task=worker.id, generation=1))


def test_a_worker_started_anew_in_place_is_given_its_split_again(make_cluster: Make) -> None:
    cluster = make_cluster()
    while not cluster.core.state.splits.leases:
        cluster.turn()
    split, task = next(iter(cluster.core.state.splits.leases.items()))
    again = cluster.tell(m.SplitRequest(task=task, generation=1))
    assert isinstance(again, m.SplitReply)
    assert (again.state, again.split, again.resume) == ("lease", split, True)
    other = cluster.tell(m.SplitRequest(task=task, generation=1, holding=(split,)))
    assert isinstance(other, m.SplitReply)
    assert other.split != split


@pytest.mark.parametrize("epochs", [(0,), (1,), ()])
def test_a_file_whose_lease_the_journal_lost_stays_with_the_worker_that_names_it(
    make_cluster: Make, epochs: tuple[int, ...]
) -> None:
    cluster = make_cluster()
    while not cluster.core.state.splits.leases:
        cluster.turn()
    split, task = next(iter(cluster.core.state.splits.leases.items()))
    cluster.log = [line for line in cluster.log if not isinstance(line[0], ev.SplitLeased)]
    cluster.start_am()
    assert not cluster.core.state.splits.leases
    before = len(cluster.events(ev.SplitLeased))
    cluster.tell(m.SplitRequest(task=task, generation=1, holding=(split,), epochs=epochs))
    leased = cluster.events(ev.SplitLeased)[before:]
    kept = ev.SplitLeased(task=task, split=split, epoch=0, resume=True)
    if epochs == (0,):
        assert leased[0] == kept
        assert cluster.core.state.splits.leases[split] == task
    else:  # what the worker reads is not known to be this
        assert kept not in leased
    assert len(leased) == 1 + (epochs == (0,))


def test_a_request_that_the_cluster_lost_is_made_again(make_cluster: Make) -> None:
    cluster = make_cluster()
    lost = next(child for child in cluster.children.values() if str(child.id) == "ps:1")
    real = cluster.allocate

    def allocate() -> None:
        held = cluster.containers.pop(lost.handle)
        real()
        cluster.containers[lost.handle] = held

    cluster.allocate = allocate  # type: ignore[method-assign]
    assert cluster.run() == "SUCCEEDED"
    assert lost.handle in cluster.killed
    assert [(str(end.task), end.cause) for end in failures(cluster)] == [("ps:1", "request_unanswered")]
    every_split_once(cluster)


def test_a_full_queue_is_waited_for_as_long_as_the_job_file_says(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(timeouts=Timeouts(allocate=Duration(4 * 3600))))
    cluster.allocate = lambda: None  # type: ignore[method-assign]
    for _ in range(200):
        cluster.time += 61
        cluster.poll()
    assert cluster.core.state.verdict == ""
    cluster.time += 3600
    cluster.poll()
    assert cluster.core.state.verdict_cause == "allocation_timeout"


def test_no_container_in_time_fails_with_what_is_missing(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.allocate = lambda: None  # type: ignore[method-assign]
    cluster.time += 2000
    cluster.poll()
    assert "ps:0" in cluster.core.state.diagnostics
    assert "timeouts.allocate" in cluster.core.state.diagnostics


def test_how_the_training_stood_at_its_end_is_the_last_sample(make_cluster: Make) -> None:
    """A job of a few seconds would else be known by its first steps."""
    cluster = make_cluster(make_config(files=1, epochs=1, evaluator=False))
    assert cluster.run() == "SUCCEEDED"
    trained = sum(
        end.progress.samples for end in cluster.events(ev.TaskEnded) if end.progress and end.task.role == "worker"
    )
    last = cluster.events(ev.Sample)[-1]
    assert last.samples == trained
    assert (last.step, last.progress) == (cluster.events(ev.JobFinished)[0].step, 1)


def test_samples_are_close_together_at_first(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(files=60))
    cluster.speed = dict.fromkeys(cluster.core.state.tasks, 50.0)
    assert cluster.run() == "SUCCEEDED"
    times = [wall for event, wall in cluster.log if isinstance(event, ev.Sample)]
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)][:-1]
    assert min(gaps) < 5
    assert max(gaps) <= 31


def test_a_version_is_told_of_once_and_by_the_chief_alone(make_cluster: Make) -> None:
    cluster = make_cluster()
    for _ in range(6):
        cluster.turn()
    chief, other = (child.id for child in cluster.live("worker")[:2])
    report = m.VersionReport(
        task=chief, generation=1, version=1764403200, parent=None, step=7, manifest="m", bytes=100, seconds=2.5
    )
    for _ in range(2):
        cluster.tell(report)
    assert [event.step for event, *_ in cluster.log if isinstance(event, ev.VersionExported)] == [7]
    with pytest.raises(PermissionDenied, match="is not the chief"):
        cluster.tell(msgspec.structs.replace(report, task=other, version=1))
