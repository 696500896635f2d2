"""A wait for containers explains itself."""

import itertools
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo.events import types as ev
from afo.formats.units import Duration, Memory
from afo.job import Elastic, RoleSpec, Timeouts
from afo.yarn.queues import Queue as YarnQueue
from afo.yarn.queues import QueueUse as YarnQueueUse
from afo.yarn.queues import Resource
from afo_am.core.core import Core
from afo_am.engine.status import status_of
from afo_am.policy.waiting import Lack, sentence
from afo_am.runtime.base import ContainerInfo, Node, QueueUse
from afo_am.runtime.yarn import queue_use
from afo_am.state import commands as c
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]

GIB = 1024
SPEC = RoleSpec(instances=8, memory=Memory(8 * GIB), vcores=4)
WORKERS, SERVERS = Lack("worker", 3, 8, SPEC), Lack("ps", 1, 2, SPEC)


def node(free: int = 12, vcores_free: int = 3, total: int = 64, *labels: str) -> Node:
    """A machine of `total` GiB and 16 vcores."""
    return Node(
        host="n", memory=total * GIB, memory_used=(total - free) * GIB, vcores=16, vcores_used=16 - vcores_free,
        labels=labels,
    )  # fmt: skip


def queue(used: int = 97, most: int = 100, vcores_used: int = 10) -> QueueUse:
    """A queue of `most` GiB and 100 vcores."""
    return QueueUse(
        path="root.ads", memory=most * GIB, memory_used=used * GIB, vcores=100, vcores_used=vcores_used
    )  # fmt: skip


def test_the_whole_sentence() -> None:
    assert sentence([SERVERS, WORKERS], [node(4), node()], queue(97)) == (
        "waiting for 1 of 2 ps and 3 of 8 workers (8 GiB, 4 vcores each); queue root.ads 97 % used; "
        "largest free node 12 GiB and 3 vcores; the queue may have 3 GiB more, too little for a ps (8 GiB, 4 vcores)"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert sentence([]) == ""
    assert sentence([SERVERS]) == "waiting for 1 of 2 ps (8 GiB, 4 vcores)"
    assert sentence([WORKERS], [], queue(10)) == (
        "waiting for 3 of 8 workers (8 GiB, 4 vcores each); queue root.ads 10 % used"
    )
    assert sentence([WORKERS], [node(30, 8)]) == (
        "waiting for 3 of 8 workers (8 GiB, 4 vcores each); largest free node 30 GiB and 8 vcores"
    )


def test_sizes_that_differ_stand_with_their_roles() -> None:
    small = RoleSpec(memory=Memory(1 * GIB), gpus=1, node_label="gpu")
    assert sentence([SERVERS, Lack("chief", 1, 1, small), Lack("worker", 2, 2, small)]) == (
        "waiting for 1 of 2 ps (8 GiB, 4 vcores), the chief (1 GiB, 1 vcore, 1 GPU, label gpu) and "
        "2 of 2 workers (1 GiB, 1 vcore, 1 GPU, label gpu each)"
    )


@pytest.mark.parametrize(
    ("label", "nodes", "of_queue", "why"),
    [
        ("gpu", [node()], None, "no node has the label gpu"),
        ("", [node(12, 3, 64, "gpu")], None, "every node has a label, and the job asks for none"),
        ("", [node(4, 4, 4), node(6, 4, 6)], queue(), "a ps (8 GiB, 4 vcores) is larger than every node: "
         "the largest has 6 GiB"),
        ("", [node(12, 16)], queue(0, 6), "a ps (8 GiB, 4 vcores) is more than the queue may have in all (6 GiB)"),
        ("", [node(12, 16)], queue(100), "the queue may have nothing more, too little for a ps (8 GiB, 4 vcores)"),
        ("gpu", [node(12, 16, 64, "gpu")], queue(100), ""),
        ("", [node(7, 16), node(5, 16)], queue(50), "no node has room for a ps (8 GiB, 4 vcores)"),
        ("", [node(12, 3), node(4, 16)], queue(50), "no node with memory for a ps (8 GiB, 4 vcores) has the vcores "
         "for it, if the scheduler counts them"),
        ("", [node(12, 4)], queue(50), ""),
        ("", [], None, ""),
    ],
)  # fmt: skip
def test_the_reason(label: str, nodes: list[Node], of_queue: QueueUse | None, why: str) -> None:
    text = sentence([replace(SERVERS, spec=replace(SPEC, node_label=label))], nodes, of_queue)
    why = why.replace("4 vcores)", f"4 vcores, label {label})") if label else why
    assert text.endswith(f"; {why}" if why else (" vcores" if nodes else "4 vcores)"))


def test_a_small_role_that_fits_does_not_hide_the_large_one_that_does_not() -> None:
    small = Lack("ps", 1, 1, RoleSpec(memory=Memory(GIB)))
    assert sentence([small, WORKERS], [node(2, 16)], None).endswith("no node has room for a worker (8 GiB, 4 vcores)")


def test_a_node_with_nothing_free_and_a_queue_short_of_vcores() -> None:
    text = sentence([WORKERS], [node(-1, -2)], queue(50, vcores_used=120))
    assert "; queue root.ads 50 % used (120 % of its vcores); no node has memory free; no node has room" in text


def use(most: int | None, used: int | None) -> YarnQueueUse:
    sizes = [None if memory is None else Resource(memory=memory, vcores=memory) for memory in (most, used)]
    return YarnQueueUse(most=sizes[0], used=sizes[1])


def test_a_queue_of_yarn_is_found_by_path_or_name() -> None:
    queues = [YarnQueue(path="root.other", use=use(1, 1)), YarnQueue(path="root.ads", use=use(100, 97))]
    expected = QueueUse(path="root.ads", memory=100, vcores=100, memory_used=97, vcores_used=97)
    assert queue_use(queues, "ads") == queue_use(queues, "root.ads") == expected
    assert queue_use(queues, "none") is None
    assert queue_use([YarnQueue(path="root.ads", use=use(None, 3))], "ads") is None


class Watched:
    """A cluster that gives nothing, and what its core wants to see of it."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.looks: list[float] = []
        cluster.allocate = lambda: None  # type: ignore[method-assign]

    def wait(self, seconds: float, picture: c.ClusterSeen | None = None) -> str:
        """The message of the job after a while in which each look brings `picture`."""
        core = self.cluster.core
        for _ in range(round(seconds)):
            self.cluster.time += 1
            outcome = core.handle(c.Tick(), now=self.cluster.time, wall=self.cluster.time)
            self.cluster._carry_out(outcome)
            if c.LookAtCluster() in outcome.commands:
                self.looks.append(self.cluster.time)
                if picture is not None:
                    self.cluster.tell(picture)
        return message(core, self.cluster.time)


def message(core: Core, now: float) -> str:
    return status_of(core, "local_1_0001", now).message


def test_the_cluster_is_looked_at_only_while_something_waits_and_not_too_often(make_cluster: Make) -> None:
    watched = Watched(make_cluster())
    begun = watched.cluster.time
    watched.wait(40)
    assert [time - begun for time in watched.looks] == [6, 21, 36]
    FakeCluster.allocate(watched.cluster)
    watched.cluster.poll()
    watched.wait(20)
    assert len(watched.looks) == 3


def test_the_message_says_what_the_last_look_saw(make_cluster: Make) -> None:
    watched = Watched(make_cluster())
    missing = "waiting for 2 of 2 ps, the evaluator and 2 of 2 workers (2 GiB, 1 vcore each)"
    assert watched.wait(3) == missing
    text = watched.wait(20, c.ClusterSeen((node(1, 0),), queue(50)))
    assert text == (
        f"{missing}; queue root.ads 50 % used; largest free node 1 GiB and 0 vcores; "
        "no node has room for a ps (2 GiB, 1 vcore)"
    )
    assert watched.wait(80).startswith(missing)
    assert watched.wait(1) == missing  # a picture that is old is none


def test_the_journal_hears_of_a_wait_when_its_reason_changes(make_cluster: Make) -> None:
    watched = Watched(make_cluster())
    full, crowded = c.ClusterSeen((node(),), queue(100)), c.ClusterSeen((node(1),), queue(10))
    watched.wait(100, full)
    watched.wait(20, crowded)
    watched.wait(100, full)
    reasons = [event.message.rpartition("; ")[2] for event in watched.cluster.events(ev.ContainersAwaited)]  # type: ignore[union-attr]
    assert reasons == [
        "the queue may have nothing more, too little for a ps (2 GiB, 1 vcore)",
        "no node has room for a ps (2 GiB, 1 vcore)",
        "the queue may have nothing more, too little for a ps (2 GiB, 1 vcore)",
    ]  # fmt: skip


def test_the_journal_hears_how_many_are_missing(make_cluster: Make) -> None:
    watched = Watched(make_cluster())
    cluster, full = watched.cluster, c.ClusterSeen((node(),), queue(100))
    watched.wait(100, full)
    first = next(handle for handle, child in cluster.children.items() if str(child.id) == "ps:0")
    cluster.containers[first] = ContainerInfo(handle=first, state="running", container="x", host="h")
    cluster.poll()
    watched.wait(100, full)
    told = [event.message.partition(",")[0] for event in cluster.events(ev.ContainersAwaited)]  # type: ignore[union-attr]
    assert told == ["waiting for 2 of 2 ps", "waiting for 1 of 2 ps"]


def test_the_journal_hears_of_a_second_wait_like_the_first(make_cluster: Make) -> None:
    watched = Watched(make_cluster())
    cluster, full = watched.cluster, c.ClusterSeen((node(),), queue(100))
    watched.wait(100, full)
    FakeCluster.allocate(cluster)
    cluster.poll()
    watched.wait(2)
    for handle in list(cluster.children):
        cluster.end_container(handle)
    cluster.poll()
    watched.wait(100, full)
    first, second = cluster.events(ev.ContainersAwaited)
    assert first == second


def test_a_job_that_gets_no_container_says_why(make_cluster: Make) -> None:
    watched = Watched(make_cluster(make_config(timeouts=Timeouts(allocate=Duration(120)))))
    watched.wait(130, c.ClusterSeen((node(1),), queue(60)))
    state = watched.cluster.core.state
    assert state.verdict_cause == "allocation_timeout"
    assert state.diagnostics.startswith("no container for worker:0, worker:1, ps:0, ps:1, evaluator:0 within 2m")
    assert state.diagnostics.endswith("no node has room for a ps (2 GiB, 1 vcore)")


def test_a_job_that_gave_its_containers_back_says_when_it_asks_again(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(timeouts=Timeouts(gang=Duration(100))))
    spare = {handle for handle, child in cluster.children.items() if child.id.role == "ps"}

    def all_but_servers() -> None:
        kept = {handle: cluster.containers.pop(handle) for handle in spare}
        FakeCluster.allocate(cluster)
        cluster.containers.update(kept)

    cluster.allocate = all_but_servers  # type: ignore[method-assign]
    while not cluster.events(ev.GangReleased):
        cluster.turn()
        spare = {handle for handle, child in cluster.children.items() if child.id.role == "ps"}
    text = message(cluster.core, cluster.time)
    assert text.startswith("gave its containers back so that other jobs can go on; asks again in ")


def test_tasks_that_start_are_named(make_cluster: Make) -> None:
    cluster = make_cluster(make_config(workers=12))
    FakeCluster.allocate(cluster)
    cluster.poll()
    assert message(cluster.core, cluster.time).startswith("starting worker:0, worker:1")
    assert message(cluster.core, cluster.time).endswith(" …")


def test_an_elastic_role_counts_to_its_upper_bound(make_cluster: Make) -> None:
    base = make_config(evaluator=False, ps=1)
    roles = {**base.job.roles, "worker": RoleSpec(instances=Elastic(min=1, max=4))}
    cluster = make_cluster(replace(base, job=replace(base.job, roles=roles)))
    assert message(cluster.core, cluster.time) == "waiting for 1 of 1 ps and 4 of 4 workers (2 GiB, 1 vcore each)"


def test_a_long_wait_asks_again_less_and_less_often(make_cluster: Make) -> None:
    watched = Watched(make_cluster(make_config(timeouts=Timeouts(allocate=Duration(20_000)))))
    begun = watched.cluster.time
    watched.wait(12_000)
    asked = [
        time - begun
        for event, time in watched.cluster.log
        if isinstance(event, ev.ContainerRequested) and str(event.task) == "ps:0"
    ]
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert pauses[:9] == [61] * 9
    assert 900 < pauses[-1] < 1300
    assert len(asked) < 45
