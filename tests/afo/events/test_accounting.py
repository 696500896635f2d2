"""The account of a job's records after losses of every kind."""

from msgspec.structs import replace

from afo.events import types as ev
from afo.events.accounting import Acknowledged, account_of
from afo.protocol.input_file import InputFile
from job_writer import task_id

STARTED = ev.JobStarted(
    job_id="local_1_0001", name="clicks", user="alice", queue="default", runtime="local", afo_version="0.1",
    submitted=0, train_files=("a", "b"), eval_files=(), epochs=2,
)  # fmt: skip
CHIEF, WORKER = task_id("chief", 0), task_id("worker", 0)


def leased(split: int, epoch: int = 0) -> ev.SplitLeased:
    return ev.SplitLeased(task=WORKER, split=split, epoch=epoch, resume=False)


def done(split: int, epoch: int = 0, count: int = 10) -> tuple[ev.SplitLeased, ev.SplitDone]:
    return leased(split, epoch), ev.SplitDone(task=WORKER, split=split, epoch=epoch, count=count, xor=split + 1)


def ended(cause: str) -> ev.TaskEnded:
    return ev.TaskEnded(task=WORKER, cause=cause, code=None, message="")


def saved(name: str, *positions: tuple[int, int, int, int]) -> ev.CheckpointWritten:
    return ev.CheckpointWritten(task=CHIEF, generation=1, step=5, manifest=name, positions=positions, final=False)


def ready(restored: str, generation: int = 2, lost: int = 0, kept: tuple[int, ...] = ()) -> ev.VariablesReady:
    return ev.VariablesReady(
        task=CHIEF, generation=generation, restored=restored, step=5, lost_samples=lost, kept=kept
    )  # fmt: skip


def lost_server(*kept: int) -> ev.GenerationEnded:
    return ev.GenerationEnded(generation=1, reason="ps:0", manifest="m", kept=kept)


def test_an_undisturbed_job_has_each_epoch_of_each_split_once() -> None:
    account = account_of([STARTED, ready("", 1), *done(0), *done(1), *done(0, 1)])
    assert account.acknowledged[0, 1] == Acknowledged(10, 1)
    assert (account.records, list(account.missing()), account.number_missing) == (30, [(1, 1)], 1)
    assert (account.rollbacks, account.interrupted) == (0, 0)


def test_the_list_of_splits_comes_in_the_first_event_or_in_others() -> None:
    begun = replace(STARTED, train_files=None)
    first, second = (
        ev.SplitsAdded(first=number, splits=(InputFile(name, 1, 1.0),), closed=number == 1)
        for number, name in enumerate("ab")
    )
    for story in ([STARTED], [begun, first, second]):
        account = account_of([*story, *done(0)])
        assert (list(account.splits), account.closed, account.number_missing) == (["a", "b"], True, 3)
    account = account_of([begun, first, *done(0), *done(1)])
    assert (account.closed, account.number_missing) == (False, 0)
    assert account.problem == "split 1 is read, and the list of splits has 1"
    assert account_of([begun, second]).problem.endswith("some are missing")


def test_a_process_that_ends_in_its_work_may_have_one_batch_twice() -> None:
    killed = [STARTED, leased(0), ended("memory_limit"), leased(0), ended("node_lost")]
    assert account_of(killed).interrupted == 2
    assert account_of([STARTED, *done(0), ended("memory_limit")]).interrupted == 0
    assert account_of([STARTED, leased(0), ended("scaled_away")]).interrupted == 0


def test_a_rollback_takes_back_what_the_checkpoint_does_not_hold() -> None:
    before = [STARTED, *done(0), saved("m", (0, 0, 10, 1), (1, 0, 4, 7)), *done(1), leased(0, 1), ended("node_lost")]
    account = account_of([*before, lost_server(), ready("m")])
    assert list(account.acknowledged) == [(0, 0)]
    assert (account.given_back, account.rollbacks, account.restored, account.interrupted) == (1, 1, 1, 0)
    beginning = account_of([*before, lost_server(), ready("")])
    assert not beginning.acknowledged
    assert (beginning.given_back, beginning.restored) == (2, 0)


def test_a_checkpoint_that_is_in_a_later_epoch_holds_the_earlier_ones() -> None:
    account = account_of([STARTED, *done(0), *done(0, 1), saved("m", (0, 1, 3, 2)), lost_server(), ready("m")])
    assert list(account.acknowledged) == [(0, 0)]


def test_a_partial_recovery_takes_nothing_back_and_counts_what_is_missing() -> None:
    account = account_of([STARTED, *done(0), leased(1), lost_server(1), ready("m", lost=700, kept=(1,))])
    assert list(account.acknowledged) == [(0, 0)]
    assert (account.rollbacks, account.interrupted, account.lost_samples) == (0, 1, 700)
