"""Tasks that hang are looked at."""

from collections.abc import Callable, Mapping
from typing import cast

import pytest
from msgspec import structs

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Role, Timeouts
from afo.protocol.train_task import Phase, Progress
from afo.rpc import messages as m
from afo_am.engine.status import status_of
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]
PLACE = "job/my_ctr.py:12 in build"
SILENCE = "its process does not answer at port 4711 within 10 s (stopped by a signal, state T)"
EVERYBODY = ("worker:0", "worker:1")


@pytest.fixture
def cluster(make_cluster: Make) -> FakeCluster:
    """A job that trains; its tasks are then spoken for by the tests."""
    made = make_cluster(make_config(files=200, timeouts=Timeouts(hang=Duration(60), stall=Duration(300))))
    while not made.core.state.ready:
        made.turn()
    return made


def beat(
    cluster: FakeCluster, step: int, phase: Phase = "training", stuck: tuple[str, ...] = (), silent: str = "",
    answering: bool = True, halted: str = "",
) -> None:  # fmt: skip
    """A heartbeat of every task; those of `stuck` say what they said at step 0.

    `silent`: the task that does not answer. `answering`: what is asked of the tasks, they do at once.
    """
    for child in cluster.live():
        still = child.id.role == "ps" or str(child.id) in stuck
        at = Progress(phase="serving" if child.id.role == "ps" else phase, step=0 if still else step)
        heartbeat = m.HeartbeatRequest(
            task=child.id,
            generation=1,
            process_alive=True,
            progress=at,
            orders=tuple(o.order for o in child.orders),
            halted="its process stands still" if str(child.id) == halted else "",
        )
        reply = cluster.tell(heartbeat)
        assert isinstance(reply, m.Directive)
        if answering:
            _carry_out(cluster, child, reply.orders, SILENCE if str(child.id) == silent else "")


def _carry_out(cluster: FakeCluster, child: FakeTask, orders: tuple[m.Order, ...], silence: str) -> None:
    for order in orders:
        assert order.kind == "stacks"
        stacks = f"stacks of {child.id}"
        result = m.OrderResult(task=child.id, order=order.order, output=stacks, place=PLACE, unresponsive=silence)
        cluster.tell(result)


def pass_time(cluster: FakeCluster, seconds: int, **kinds: object) -> None:
    """So many seconds, with a heartbeat and a tick in each tenth."""
    for _ in range(seconds // 10):
        cluster.time += 10
        cluster.poll()
        beat(cluster, int(cluster.time), **kinds)  # type: ignore[arg-type]


def stalled(cluster: FakeCluster) -> list[str]:
    """Tasks whose stalls were told."""
    return [str(event.task) for event in cluster.events(ev.TaskStalled) if isinstance(event, ev.TaskStalled)]


def test_an_evaluator_that_is_stopped_is_replaced(make_cluster: Make) -> None:
    made = make_cluster(make_config(files=200, evaluator=True, timeouts=Timeouts(hang=Duration(60))))
    while not made.core.state.ready:
        made.turn()
    pass_time(made, 170, halted="evaluator:0")
    assert status_of(made.core, "j", made.time).message == "evaluator:0: its process stands still"
    pass_time(made, 10)
    pass_time(made, 200, halted="evaluator:0")
    assert made.events(ev.TaskEnded) == [], "it went on in between"
    pass_time(made, 10, halted="evaluator:0")
    (ended,) = made.events(ev.TaskEnded)
    assert (str(ended.task), ended.cause, ended.idle_s) == ("evaluator:0", "unresponsive", 190.0)
    assert ended.message == "its process stands still, for 190 s"


def test_a_job_whose_evaluator_is_stopped_names_it_when_it_stalls(make_cluster: Make) -> None:
    made = make_cluster(make_config(files=200, timeouts=Timeouts(hang=Duration(600), stall=Duration(300))))
    while not made.core.state.ready:
        made.turn()
    pass_time(made, 330, stuck=(*EVERYBODY, "evaluator:0"), halted="evaluator:0")
    (verdict,) = made.events(ev.JobEnding)
    assert (verdict.cause, "evaluator:0: its process stands still" in verdict.diagnostics) == ("stalled", True)


def test_a_task_that_stands_still_among_others_is_looked_at_once(cluster: FakeCluster) -> None:
    pass_time(cluster, 200, stuck=("worker:1",))
    (event,) = cluster.events(ev.TaskStalled)
    assert isinstance(event, ev.TaskStalled)
    assert (str(event.task), event.place, event.stacks) == ("worker:1", PLACE, "stacks of worker:1")
    assert 60 < event.seconds <= 80
    (given,) = cluster.events(ev.OrderGiven)
    assert isinstance(given, ev.OrderGiven)
    assert given.user == "afo"


def test_a_worker_that_goes_on_standing_still_is_replaced(cluster: FakeCluster) -> None:
    pass_time(cluster, 170, stuck=("worker:1",))
    assert cluster.core.state.tasks["worker", 1].id.attempt == 0
    pass_time(cluster, 40, stuck=("worker:1",))
    (end,) = [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]
    assert (str(end.task), end.cause) == ("worker:1", "hung")
    assert end.message.endswith(f"s while others trained; it stands in {PLACE}")
    assert cluster.core.state.tasks["worker", 1].id.attempt == 1
    assert cluster.run(turns=3000) == "SUCCEEDED"


def test_a_worker_that_was_stopped_is_not_to_blame(cluster: FakeCluster) -> None:
    pass_time(cluster, 210, stuck=("worker:1",), silent="worker:1")
    (end,) = [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]
    assert (str(end.task), end.cause) == ("worker:1", "unresponsive")
    assert end.message.endswith(f"s while others trained; {SILENCE}")


def test_a_worker_is_replaced_once_its_stacks_are_read(cluster: FakeCluster) -> None:
    pass_time(cluster, 250, stuck=("worker:1",), answering=False)
    assert cluster.events(ev.TaskEnded) == []
    pass_time(cluster, 20, stuck=("worker:1",))
    (end,) = [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]
    assert end.message.endswith(f"it stands in {PLACE}")


def test_where_all_hang_none_is_replaced(cluster: FakeCluster) -> None:
    pass_time(cluster, 290, stuck=EVERYBODY)
    assert cluster.events(ev.TaskEnded) == []


def test_after_another_step_it_is_looked_at_again(cluster: FakeCluster) -> None:
    pass_time(cluster, 100, stuck=("worker:1",))
    pass_time(cluster, 30)
    pass_time(cluster, 100, stuck=("worker:1",))
    assert stalled(cluster) == ["worker:1", "worker:1"]


def test_where_all_workers_stand_still_the_servers_are_looked_at_too(cluster: FakeCluster) -> None:
    pass_time(cluster, 100, stuck=EVERYBODY)
    assert sorted(stalled(cluster)) == ["ps:0", "ps:1", "worker:0", "worker:1"]


def test_who_waits_does_not_hang(cluster: FakeCluster) -> None:
    pass_time(cluster, 250, phase="waiting", stuck=("worker:0", "worker:1", "evaluator:0"))
    assert stalled(cluster) == []


def test_a_job_that_fails_for_it_says_where(cluster: FakeCluster) -> None:
    everybody = ("worker:0", "worker:1", "evaluator:0")
    pass_time(cluster, 400, stuck=everybody)
    assert cluster.core.state.verdict_cause == "stalled"
    assert f"worker:0 stands in {PLACE}" in cluster.core.state.diagnostics


def test_a_server_that_does_not_answer_is_replaced_once_all_workers_hang(cluster: FakeCluster) -> None:
    pass_time(cluster, 60, stuck=EVERYBODY, silent="ps:1")
    assert cluster.events(ev.TaskEnded) == []
    pass_time(cluster, 40, stuck=EVERYBODY, silent="ps:1")
    (end,) = [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]
    assert (str(end.task), end.cause) == ("ps:1", "unresponsive")
    assert end.message == f"{SILENCE}, and all workers wait"
    told = {str(e.task): e for e in cluster.events(ev.TaskStalled) if isinstance(e, ev.TaskStalled)}
    assert (told["ps:0"].unresponsive, told["ps:1"].unresponsive) == ("", SILENCE)
    assert 60 < told["ps:1"].seconds <= 80
    assert cluster.run(turns=3000) == "SUCCEEDED"


def test_a_silent_server_is_left_alone_while_somebody_trains(cluster: FakeCluster) -> None:
    pass_time(cluster, 170, stuck=("worker:1",), silent="ps:1")
    assert stalled(cluster) == ["worker:1"]
    assert cluster.events(ev.TaskEnded) == []


def test_servers_are_looked_at_again_after_another_step(cluster: FakeCluster) -> None:
    pass_time(cluster, 100, stuck=EVERYBODY)
    pass_time(cluster, 30)
    pass_time(cluster, 100, stuck=EVERYBODY, silent="ps:0")
    assert stalled(cluster).count("ps:0") == 2
    assert [str(e.task) for e in cluster.events(ev.TaskEnded) if isinstance(e, ev.TaskEnded)] == ["ps:0"]


def test_stacks_are_not_asked_for_while_they_are_being_read(cluster: FakeCluster) -> None:
    """A process is stopped meanwhile, so that it hangs again, or seems to, after its next step."""
    pass_time(cluster, 100, stuck=("worker:1",), answering=False)
    pass_time(cluster, 30, answering=False)
    pass_time(cluster, 100, stuck=("worker:1",), answering=False)
    assert len(cluster.events(ev.OrderGiven)) == 1
    pass_time(cluster, 20, stuck=("worker:1",))
    assert len(cluster.events(ev.OrderGiven)) == 2
    assert stalled(cluster) == ["worker:1"]


def pass_quietly(
    cluster: FakeCluster, seconds: int, phase: Phase | None, cores: Mapping[str, float] = {},
    moved: Mapping[str, int] = {},
) -> None:  # fmt: skip
    """Trainers report one phase and no step; so many cores are busy, so many bytes per second are moved, by role."""
    for _ in range(seconds):
        cluster.time += 1
        cluster.poll()
        for child in cluster.live():
            role, since = cast(Role, child.id.role), cluster.time - 1000
            training = Progress(phase="serving" if role == "ps" else phase, step=7) if phase else None
            work = m.ProcessWork(cpu_s=since * cores.get(role, 0.01), moved_bytes=int(since) * moved.get(role, 0))
            reply = cluster.tell(m.HeartbeatRequest(
                task=child.id, generation=1, process_alive=True, progress=training, work=work,
                orders=tuple(order.order for order in child.orders),
            ))  # fmt: skip
            assert isinstance(reply, m.Directive)
            _carry_out(cluster, child, reply.orders, "")


@pytest.mark.parametrize("phase", ["saving", "exporting", "restoring", "initializing"])
@pytest.mark.parametrize(
    ("cores", "moved"), [({"worker": 0.9}, {}), ({"ps": 0.2}, {}), ({}, {"worker": 10 << 20}), ({}, {"ps": 1 << 20})]
)
def test_who_works_without_steps_neither_stalls_nor_hangs(
    cluster: FakeCluster, phase: Phase, cores: dict[str, float], moved: dict[str, int]
) -> None:
    pass_quietly(cluster, 700, phase, cores, moved)
    assert cluster.events(ev.JobEnding) == []
    assert not {"worker:0", "ps:0", "ps:1"} & set(stalled(cluster)), "the chief, and servers that it waits for"


@pytest.mark.parametrize("phase", ["saving", "exporting", "restoring", "initializing"])
def test_a_save_or_an_export_in_which_nothing_works_is_found(cluster: FakeCluster, phase: Phase) -> None:
    pass_quietly(cluster, 330, phase)
    assert cluster.core.state.verdict_cause == "stalled"
    assert {"worker:0", "ps:0", "ps:1"} <= set(stalled(cluster))


def test_a_loop_without_end_in_a_step_is_no_work(cluster: FakeCluster) -> None:
    pass_quietly(cluster, 330, "training", {"worker": 1.0, "ps": 1.0})
    assert cluster.core.state.verdict_cause == "stalled"


def test_a_new_process_without_a_word_yet_is_not_judged_by_the_one_before(cluster: FakeCluster) -> None:
    pass_time(cluster, 30)
    pass_quietly(cluster, 200, None)
    assert stalled(cluster) == []


def test_its_own_reading_of_stacks_is_no_standstill(cluster: FakeCluster) -> None:
    child = cluster.live("worker")[0]
    order = cluster.tell(m.OrderRequest(user="alice", kind="stacks", index=child.id.index))
    assert isinstance(order, m.OrderReply)
    beaten = m.HeartbeatRequest(task=child.id, generation=1, process_alive=True, halted="it stands still (state t)")
    for halted in (beaten, m.HeartbeatRequest(task=child.id, generation=1, process_alive=True)):
        cluster.tell(halted)
        assert status_of(cluster.core, "j", cluster.time).message == ""
    cluster.tell(m.OrderResult(task=child.id, order=order.order, output="stacks"))
    cluster.tell(beaten)
    assert "it stands still (state t)" in status_of(cluster.core, "j", cluster.time).message


def test_a_process_that_is_over_shows_no_counters(cluster: FakeCluster) -> None:
    child = cluster.live("worker")[0]
    at = Progress(phase="training", step=236, samples=9000, step_s=0.5)
    beaten = m.HeartbeatRequest(task=child.id, generation=1, process_alive=True, progress=at)
    seen = []
    for heartbeat in (beaten, structs.replace(beaten, process_alive=False), structs.replace(beaten, progress=None)):
        cluster.tell(heartbeat)
        (task,) = [task for task in status_of(cluster.core, "j", cluster.time).tasks if task.task == child.id]
        seen.append(task.progress)
    assert seen == [at, None, None], "neither before another process starts, nor before it says anything"
