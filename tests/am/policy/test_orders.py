"""Orders to live tasks, as the core passes them on."""

from collections.abc import Callable

import pytest
from msgspec import structs

from afo.errors import NotFound, PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.job import Acls
from afo.rpc import messages as m
from afo_am.policy.orders import MAX_KEPT, MAX_OPEN
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]


@pytest.fixture
def cluster(make_cluster: Make) -> FakeCluster:
    """A job that trains, with work for a long time."""
    made = make_cluster(make_config(files=200))
    while not made.core.state.ready:
        made.turn()
    return made


def worker(cluster: FakeCluster) -> FakeTask:
    """The Child of worker:1."""
    return next(child for child in cluster.live("worker") if child.id.index == 1)


def give(cluster: FakeCluster, kind: m.OrderKind, *argv: str, role: str = "worker", user: str = "alice") -> int:
    """An order to task 1 of a role; returns its number."""
    reply = cluster.tell(m.OrderRequest(user=user, kind=kind, role=role, index=1, argv=argv))  # type: ignore[arg-type]
    assert isinstance(reply, m.OrderReply)
    return reply.order


def status(cluster: FakeCluster, order: int) -> m.OrderStatusReply:
    """What became of it."""
    reply = cluster.tell(m.OrderStatusRequest(order=order))
    assert isinstance(reply, m.OrderStatusReply)
    return reply


def beat(cluster: FakeCluster, child: FakeTask, *taken: int) -> tuple[m.Order, ...]:
    """A heartbeat that names `taken`; returns the orders that come back."""
    reply = cluster.tell(m.HeartbeatRequest(task=child.id, generation=1, orders=taken))
    assert isinstance(reply, m.Directive)
    return reply.orders


def test_an_order_is_repeated_until_the_child_has_it_and_its_result_comes_back(cluster: FakeCluster) -> None:
    order = give(cluster, "exec", "ls", "-l", "secret")
    expected = (m.Order(order=order, kind="exec", argv=("ls", "-l", "secret")),)
    child = worker(cluster)
    other = next(other for other in cluster.live("worker") if other is not child)
    assert beat(cluster, other) == ()
    assert beat(cluster, child) == beat(cluster, child) == expected
    assert status(cluster, order).state == "waiting"
    assert beat(cluster, child, order) == ()
    assert status(cluster, order).state == "running"
    cluster.tell(m.OrderResult(task=child.id, order=order, code=2, output="no such file", truncated=True))
    assert status(cluster, order) == m.OrderStatusReply(state="done", code=2, output="no such file", truncated=True)
    given, done = cluster.events(ev.OrderGiven)[-1], cluster.events(ev.OrderDone)[-1]
    assert given == ev.OrderGiven(task=child.id, order=order, kind="exec", user="alice", program="ls")
    assert done == ev.OrderDone(task=child.id, order=order, failed=False, code=2)


def test_why_an_order_failed_is_in_the_journal_but_nothing_that_a_program_wrote(cluster: FakeCluster) -> None:
    profile, program = give(cluster, "profile", "2"), give(cluster, "exec", "env")
    task = worker(cluster).id
    for order in (profile, program):
        cluster.tell(m.OrderResult(task=task, order=order, failed=True, output="SECRET=1 " * 100))
    said, hidden = cluster.events(ev.OrderDone)[-2:]
    assert (said.problem, hidden.problem) == (("SECRET=1 " * 100)[:500], "")


def test_who_may_modify_the_job_gives_orders_but_runs_no_program(make_cluster: Make) -> None:
    config = make_config(files=200)
    acls = Acls(view=("vera",), modify=("mod",))
    cluster = make_cluster(structs.replace(config, job=structs.replace(config.job, acls=acls)))
    while not cluster.core.state.ready:
        cluster.turn()
    give(cluster, "stacks", user="mod")
    with pytest.raises(PermissionDenied, match="only alice"):
        give(cluster, "exec", "ls", user="mod")
    with pytest.raises(PermissionDenied, match="only alice"):
        give(cluster, "stacks", user="vera")


def test_only_the_owner_gives_orders(cluster: FakeCluster) -> None:
    with pytest.raises(PermissionDenied, match="only alice"):
        give(cluster, "stacks", user="bob")
    assert cluster.events(ev.OrderGiven) == []


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        (
            m.OrderRequest(user="alice", kind="stacks", role="worker", index=7),
            NotFound,
            "it has worker:0, worker:1",
        ),
        (m.OrderRequest(user="alice", kind="exec", role="worker", index=1), ProtocolError, "needs a program"),
        (
            m.OrderRequest(user="alice", kind="kill", role="ps", argv=("ls",)),
            ProtocolError,
            "no other order an argument",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_refused(
    cluster: FakeCluster, request_: m.OrderRequest, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        cluster.tell(request_)


def test_a_checkpoint_is_the_chiefs_whatever_task_is_named(cluster: FakeCluster) -> None:
    give(cluster, "checkpoint", role="ps")
    (given,) = cluster.events(ev.OrderGiven)
    assert isinstance(given, ev.OrderGiven)
    assert given.task == cluster.core.state.chief.id


def test_the_orders_of_a_task_are_bounded_and_so_are_results(cluster: FakeCluster) -> None:
    child = worker(cluster)
    for _ in range(MAX_KEPT):
        order = give(cluster, "stacks")
        cluster.tell(m.OrderResult(task=child.id, order=order, output="x"))
    for _ in range(MAX_OPEN):
        last = give(cluster, "stacks")
    with pytest.raises(ProtocolError, match=f"has {MAX_OPEN} orders"):
        give(cluster, "stacks")
    cluster.tell(m.OrderResult(task=child.id, order=last, output="x"))
    give(cluster, "stacks")
    assert status(cluster, last).output == "x"
    with pytest.raises(NotFound, match="order 1"):
        status(cluster, 1)


def test_an_order_fails_with_the_attempt_that_was_to_carry_it_out(cluster: FakeCluster) -> None:
    order = give(cluster, "stacks")
    cluster.end_container(worker(cluster).handle)
    cluster.poll()
    assert status(cluster, order).state == "failed"
    assert "ended before that was done" in status(cluster, order).output
    with pytest.raises(ProtocolError, match="no process at present"):
        give(cluster, "stacks")


def test_a_restarted_am_says_that_the_order_is_lost_and_takes_new_ones(cluster: FakeCluster) -> None:
    child, order = worker(cluster), give(cluster, "stacks")
    beat(cluster, child)
    cluster.start_am()
    assert status(cluster, order).state == "failed"
    assert "restarted" in status(cluster, order).output
    cluster.tell(m.OrderResult(task=child.id, order=order, output="late"))
    assert status(cluster, order).state == "failed"
    assert give(cluster, "stacks") == order + 1, "numbers never repeat: the Child would take a new one for an old one"


def test_a_killed_task_comes_back(cluster: FakeCluster) -> None:
    killed = worker(cluster)
    order = give(cluster, "kill")
    while not any(child.id.attempt == 1 for child in cluster.live("worker")):
        cluster.turn()
    assert status(cluster, order).state == "done"
    (ended,) = [end for end in cluster.events(ev.TaskEnded) if isinstance(end, ev.TaskEnded)]
    assert (ended.task, ended.cause) == (killed.id, "killed_by_user")
