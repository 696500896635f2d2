"""The queue of splits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.errors import ProtocolError
from afo.rpc.messages import TaskId
from afo_am.state.split_queue import Lease, SplitQueue

A, B = (TaskId(role="worker", index=n, attempt=0) for n in range(2))


def closed_queue(number: int, epochs: int, seed: int, *, shuffled: bool) -> SplitQueue:
    queue = SplitQueue(epochs, seed, shuffled)
    queue.add(number, closed=True)
    return queue


def take(queue: SplitQueue, task: TaskId) -> tuple[int, int]:
    lease = queue.peek()
    assert lease is not None
    queue.lease(lease.split, task)
    return lease.split, lease.epoch


def test_order_is_a_function_of_the_seed() -> None:
    orders = []
    for seed in (1, 1, 2):
        queue = closed_queue(50, 1, seed, shuffled=True)
        orders.append([take(queue, A)[0] for _ in range(50)])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(50))


def test_unshuffled_files_come_as_they_lie() -> None:
    queue = closed_queue(5, 1, 1, shuffled=False)
    assert [take(queue, A)[0] for _ in range(5)] == [0, 1, 2, 3, 4]


def test_epochs_of_a_file_never_overlap() -> None:
    queue = closed_queue(1, 2, 1, shuffled=True)
    assert take(queue, A) == (0, 0)
    assert queue.peek() is None
    queue.complete(0, 0, 3, 5)
    assert take(queue, B) == (0, 1)


def test_a_released_file_is_offered_again_to_be_resumed() -> None:
    queue = closed_queue(1, 1, 1, shuffled=True)
    take(queue, A)
    assert queue.release(A) == [0]
    lease = queue.peek()
    assert lease is not None
    assert lease.resume


def test_a_file_that_its_reader_does_not_know_of_is_given_to_it_again() -> None:
    queue = closed_queue(3, 1, 1, shuffled=False)
    take(queue, A), take(queue, B), take(queue, A)
    assert queue.forgotten(A, (0, 2)) is None
    assert queue.forgotten(A, (2,)) == Lease(0, 0, resume=True)


def test_a_file_is_free_in_its_present_epoch_while_nobody_reads_it() -> None:
    queue = closed_queue(2, 2, 1, shuffled=False)
    assert [queue.is_free(split, 0) for split in (-1, 0, 1, 2)] == [False, True, True, False]
    split, epoch = take(queue, A)
    assert not queue.is_free(split, epoch)
    queue.complete(split, epoch, 3, 5)
    assert [queue.is_free(split, each) for each in range(3)] == [False, True, False]


def test_only_the_holder_acknowledges_and_only_its_epoch() -> None:
    queue = closed_queue(2, 2, 1, shuffled=True)
    split, epoch = take(queue, A)
    for task, wrong_epoch in ((B, epoch), (A, epoch + 1)):
        with pytest.raises(ProtocolError, match="is not leased to"):
            queue.check(split, wrong_epoch, task)
    queue.complete(split, epoch, 3, 5)
    assert queue.is_repeated(split, epoch, 3, 5)
    assert not queue.is_repeated(split, epoch, 4, 5)


def test_roll_back_counts_a_file_as_complete_only_with_its_known_total() -> None:
    queue = closed_queue(3, 2, 1, shuffled=False)
    for _ in range(3):
        split, epoch = take(queue, A)
        queue.complete(split, epoch, 10, split)
    queue.roll_back([(0, 0, 10, 0), (1, 0, 6, 9)])
    assert queue.completed == [1, 0, 0]
    assert queue.totals == {(0, 0): (10, 0)}
    assert queue.done == 1
    assert queue.samples() == 10


@given(st.data(), st.integers(1, 6), st.integers(1, 3))
def test_any_order_of_leases_releases_and_ends_reads_everything_once(
    data: st.DataObject, rows: int, epochs: int
) -> None:
    queue = closed_queue(rows, epochs, 1, shuffled=True)
    held: dict[TaskId, list[tuple[int, int]]] = {A: [], B: []}
    seen: list[tuple[int, int]] = []
    for _ in range(2000):
        if queue.finished:
            break
        task = data.draw(st.sampled_from([A, B])) if len(seen) < 6 else A
        if len(seen) >= 6:
            queue.release(B)
            held[B] = []
        lease = queue.peek()
        if lease is not None:
            held[task].append(take(queue, task))
        elif held[task]:
            split, epoch = held[task].pop()
            queue.check(split, epoch, task)
            queue.complete(split, epoch, 1, 1)
            seen.append((split, epoch))
        elif held[B]:
            held[B] = [] if queue.release(B) else held[B]
    assert sorted(seen) == [(split, epoch) for split in range(rows) for epoch in range(epochs)]


def test_bad_records_count_once_however_often_a_file_is_read() -> None:
    queue = closed_queue(4, 1, 1, shuffled=False)
    for split in range(2):
        take(queue, A)
        queue.complete(split, 0, 100, split, bad=3, unread=1)
    assert (queue.bad_records, queue.records) == (6, 202)
    queue.roll_back([(0, 0, 100, 0), (1, 0, 60, 9)])
    assert (queue.bad_records, queue.records) == (3, 101), "file 1 is read again"
    take(queue, B)
    queue.complete(1, 0, 100, 1, bad=3, unread=1)
    assert (queue.bad_records, queue.records) == (6, 202)


def test_files_read_so_far_stand_for_the_others_once_they_are_a_tenth() -> None:
    queue = closed_queue(30, 1, 1, shuffled=False)
    for split in range(2):
        take(queue, A)
        queue.complete(split, 0, 99, split, bad=50, unread=1)
        assert not queue.has_too_many_bad(0.01), "of 30 files, two say little"
    take(queue, A)
    queue.complete(2, 0, 100, 0)
    # 100 bad of 300 are read, so 3,000 records are to be expected.
    assert queue.has_too_many_bad(0.033)
    assert not queue.has_too_many_bad(0.034)


def test_while_splits_may_come_the_first_epoch_is_not_over() -> None:
    queue = SplitQueue(2, 1, shuffled=False)
    queue.add(1, closed=False)
    take(queue, A)
    assert not queue.starved, "somebody reads"
    queue.complete(0, 0, 3, 5)
    assert (queue.peek(), queue.starved, queue.finished, queue.is_free(0, 1)) == (None, True, False, False)
    with pytest.raises(ProtocolError, match="is not free"):
        queue.lease(0, A)
    queue.add(1, closed=False)
    assert take(queue, A) == (1, 0)
    queue.add(0, closed=True)
    assert (take(queue, B), queue.starved) == ((0, 1), False)
    with pytest.raises(ProtocolError, match="was closed with 2"):
        queue.add(1, closed=True)


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(1, 3), st.integers(0, 3))
def test_a_list_that_came_in_parts_before_anybody_read_has_the_order_of_a_whole_one(
    parts: list[int], epochs: int, seed: int
) -> None:
    def order(queue: SplitQueue) -> list[tuple[int, int]]:
        taken = []
        while not queue.finished:
            taken.append(take(queue, A))
            queue.complete(*taken[-1], 1, 1)
        return taken

    queue = SplitQueue(epochs, seed, shuffled=True)
    for number in parts:
        queue.add(number, closed=False)
    queue.add(0, closed=True)
    assert order(queue) == order(closed_queue(sum(parts), epochs, seed, shuffled=True))


@given(st.data(), st.integers(1, 3))
def test_splits_that_come_among_leases_releases_and_rollbacks_are_all_read(data: st.DataObject, epochs: int) -> None:
    queue = SplitQueue(epochs, 1, shuffled=True)
    applied: dict[tuple[int, int], int] = {}
    steps = st.sampled_from(["add", "lease", "end", "release", "roll back"])
    for step in data.draw(st.lists(steps, max_size=40)):
        if step == "add":
            queue.add(data.draw(st.integers(0, 3)), closed=False)
        elif step == "lease" and queue.peek() is not None:
            assert take(queue, data.draw(st.sampled_from([A, B])))[1] == 0
        elif step == "end" and queue.leases:
            split = data.draw(st.sampled_from(sorted(queue.leases)))
            queue.complete(split, 0, 1, split)
            applied[split, 0] = 1
        elif step == "release":
            queue.release(data.draw(st.sampled_from([A, B])))
        elif step == "roll back":
            kept = data.draw(st.sets(st.sampled_from(sorted(applied)))) if applied else set()
            queue.roll_back([(split, 0, 1, split) for split, _ in kept])
            applied = dict.fromkeys(kept, 1)
        assert not queue.finished
    queue.add(data.draw(st.integers(0, 2)), closed=True)
    queue.release(A), queue.release(B)
    while not queue.finished:
        split, epoch = take(queue, A)
        queue.complete(split, epoch, 1, split)
        applied[split, epoch] = applied.get((split, epoch), 0) + 1
    assert applied == {(split, epoch): 1 for split in range(queue.number) for epoch in range(epochs)}
