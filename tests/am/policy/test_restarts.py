"""Which ends of a task are tried again, and after which pause."""

import re
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Backoff, Restart, RestartBudget
from afo.rpc import messages as m
from afo_am.policy.restarts import without_numbers
from afo_am.state import commands as c
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]


def started(cluster: FakeCluster) -> FakeCluster:
    for _ in range(6):
        cluster.turn()
    return cluster


def ends(cluster: FakeCluster) -> list[str]:
    return [f"{end.task} {end.cause}" for end in cluster.events(ev.TaskEnded) if isinstance(end, ev.TaskEnded)]


def requests(cluster: FakeCluster, role: str, index: int) -> list[float]:
    """When containers were asked for."""
    return [
        time
        for event, time in cluster.log
        if isinstance(event, ev.ContainerRequested) and (event.task.role, event.task.index) == (role, index)
    ]


def test_an_exception_is_tried_again_once(make_cluster: Make) -> None:
    cluster = started(make_cluster(make_config(files=30)))
    cluster.exit(cluster.live("worker")[1], "user_exception", 1, "ValueError: bad")
    cluster.turn()
    cluster.exit(cluster.live("worker")[0], "user_exception", 1, "OSError: another")
    assert cluster.run() == "SUCCEEDED"


def test_the_same_exception_again_fails_the_job_whichever_task_raises_it(make_cluster: Make) -> None:
    cluster = started(make_cluster(make_config(files=30)))
    cluster.exit(cluster.live("worker")[1], "user_exception", 1, "ValueError: bad row 17 at 0x7f01")
    cluster.exit(cluster.live("worker")[0], "user_exception", 1, "ValueError: bad row 4 at 0x7fff")
    assert cluster.run() == "FAILED"
    (ending,) = cluster.events(ev.JobEnding)
    assert isinstance(ending, ev.JobEnding)
    assert (ending.cause, str(ending.first_task)) == ("user_exception", "worker:0")
    assert ending.diagnostics == "worker:0 on h: ValueError: bad row 4 at 0x7fff; the same exception came again"


def test_the_same_exception_may_come_again_after_the_window(make_cluster: Make) -> None:
    budget = RestartBudget(max=5, per=Duration(3))
    cluster = started(make_cluster(make_config(files=30, restart=Restart(worker=budget))))
    for _ in range(3):
        cluster.exit(cluster.live("worker")[1], "user_exception", 1, "ValueError: bad")
        while len(cluster.live("worker")) < 2:
            cluster.turn()
        for _ in range(4):
            cluster.turn()
    assert cluster.run() == "SUCCEEDED"


def test_corrupt_data_and_mistakes_in_code_are_not_tried_again(make_cluster: Make) -> None:
    for cause, words in (("data_error", "DataError: damaged"), ("user_exception", "NameError: name 'x'")):
        cluster = started(make_cluster())
        cluster.exit(cluster.live("worker")[1], cause, 1, words)
        assert cluster.run() == "FAILED"
        assert cluster.finished is not None
        assert "it would fail again" in cluster.finished.diagnostics


@pytest.mark.parametrize("cause", ["out_of_memory", "memory_limit"])
def test_more_memory_once_and_for_all_later_attempts(make_cluster: Make, cause: str) -> None:
    cluster = started(make_cluster(make_config(files=60)))
    asked: list[bool] = []
    carry_out = cluster._carry_out

    def noting(outcome) -> None:  # type: ignore[no-untyped-def]
        asked.extend(command.more_memory for command in outcome.commands if isinstance(command, c.RequestContainer))
        carry_out(outcome)

    cluster._carry_out = noting  # type: ignore[method-assign]
    for end in (cause, "preempted"):
        cluster.exit(cluster.live("worker")[1], end, -9)
        while len([child for child in cluster.live("worker") if child.running]) < 2:
            cluster.turn()
    assert asked == [True, True], "what was taken away for other reasons comes back as large"
    cluster.exit(cluster.live("worker")[1], cause, -9)
    assert cluster.run() == "FAILED"
    assert cluster.finished is not None
    assert "it ran out of memory again, though it had been given more" in cluster.finished.diagnostics


def test_pauses_grow_and_are_spread(make_cluster: Make) -> None:
    backoff = Backoff(initial=Duration(4), max=Duration(10))
    cluster = started(make_cluster(make_config(files=200, workers=3, restart=Restart(backoff=backoff))))
    pauses: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(5):
        for index in pauses:
            (child,) = [child for child in cluster.live("worker") if child.id.index == index]
            cluster.exit(child, "preempted", -15)
        ended = cluster.time
        while len([child for child in cluster.live("worker") if child.running]) < 3:
            cluster.turn()
        for index, found in pauses.items():
            found.append(requests(cluster, "worker", index)[-1] - ended)
    for found in pauses.values():
        assert found[0] == 0
        # The clock of the fake cluster goes by whole seconds.
        assert 3 <= found[1] <= 6
        assert 6 <= found[2] <= 11
        assert all(7.5 <= pause <= 13.5 for pause in found[3:])
    assert pauses[1] != pauses[2]


def test_a_server_that_pauses_holds_up_the_generation(make_cluster: Make) -> None:
    backoff = Backoff(initial=Duration(20), max=Duration(20))
    cluster = started(make_cluster(make_config(files=60, restart=Restart(backoff=backoff))))
    for _ in range(2):
        while not (servers := [child for child in cluster.live("ps") if child.id.index == 0]):
            cluster.turn()
        cluster.end_container(servers[0].handle)
        cluster.turn()
    began = cluster.time
    while len(cluster.events(ev.GenerationStarted)) < 2:
        cluster.turn()
    assert 10 <= cluster.time - began <= 30
    assert cluster.run() == "SUCCEEDED"


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("Container preempted by scheduler", "preempted"),
        ("Container released on a *lost* node", "node_lost"),
        ("Container failed during execution, see logs for more information.", "container_stopped"),
        ("", "container_stopped"),
    ],
)
def test_yarn_says_why_a_child_was_told_to_end(make_cluster: Make, words: str, cause: str) -> None:
    cluster = make_cluster()
    for _ in range(6):
        cluster.turn()
    worker = cluster.live("worker")[1]
    last = m.ExitReport(task=worker.id, generation=1, code=-15, cause="container_stopped", tail="the last line")
    assert cluster.tell(last) == m.ExitReply()
    assert cluster.events(ev.TaskEnded) == []
    cluster.end_container(worker.handle, words)
    cluster.turn()
    (end,) = cluster.events(ev.TaskEnded)
    assert (end.cause, end.tail, end.message == words) == (cause, "the last line", bool(words))
    assert cluster.run() == "SUCCEEDED"


def test_a_child_that_was_told_to_end_is_not_waited_for_long(make_cluster: Make) -> None:
    cluster = make_cluster()
    for _ in range(6):
        cluster.turn()
    worker = cluster.live("worker")[1]
    worker.running = False
    cluster.tell(m.ExitReport(task=worker.id, generation=1, code=-15, cause="container_stopped", tail=""))
    cluster.children.pop(worker.handle)
    while not (ends := cluster.events(ev.TaskEnded)):
        cluster.turn()
    assert ends[0].cause == "container_stopped"
    assert cluster.run() == "SUCCEEDED"


#: Of `secrets.token_hex`: one without a digit is one in a hundred thousand.
TOKENS = st.text("0123456789abcdef", min_size=12, max_size=12).filter(lambda name: not name.isalpha())
WORDS = st.text(string.ascii_letters, min_size=1)


@given(TOKENS, TOKENS, st.integers(1), st.integers(1), st.sampled_from(("-", "/", ".", "_", " ", "'")))
def test_the_same_exception_of_another_try_is_the_same(
    one: str, other: str, first: int, second: int, sign: str
) -> None:
    text = "StorageError: cannot write /c/g{:06d}-{}/age.0.npy{}{}: Input/output error"
    assert without_numbers(text.format(first, one, sign, one)) == without_numbers(
        text.format(second, other, sign, other)
    )


@given(WORDS, st.sampled_from(("facade", "decade", "defaced", "acceded", "table_b", "beefed7up", "v2beta")))
def test_words_are_no_numbers(word: str, name: str) -> None:
    found = without_numbers(f"ValueError: {word} is not {name}")
    assert (word in found, re.sub(r"\d", "#", name) in found) == (True, True)
