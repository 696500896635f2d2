"""What `afo check` says of an account that does not fit files or checkpoint."""

from afo.accounting import Account, Acknowledged, Position
from afo.offline_task import RecountedSplit
from afo_client.record_check import NAMED, findings

FILES = (RecountedSplit(number=0, count=10, xor=1), RecountedSplit(number=1, count=12, xor=2, bad=2, unread=1))


def account(**changed: object) -> Account:
    acknowledged = {(0, 0): Acknowledged(10, 1), (1, 0): Acknowledged(12, 2, bad=2, unread=1)}
    positions = ((0, 0, 10, 1), (1, 0, 12, 2))
    fields = {"acknowledged": acknowledged, "positions": positions, "final": True, "manifest": "m"} | changed
    return Account(splits=("a", "b"), epochs=1, **fields)  # type: ignore[arg-type]


def problems(
    of: Account, saved: tuple[Position, ...] | None = None, complete: bool = True, sifted: bool = False
) -> list[str]:
    return list(
        findings(of, of.positions if saved is None else saved, FILES, complete=complete, sifted=sifted).problems
    )


def test_what_fits_has_no_problem() -> None:
    assert problems(account()) == []


def test_another_count_checksum_or_number_of_bad_records_is_found() -> None:
    for wrong in (Acknowledged(11, 1), Acknowledged(10, 3), Acknowledged(10, 1, bad=1)):
        changed = account(acknowledged={(0, 0): wrong, (1, 0): Acknowledged(12, 2, bad=2, unread=1)}, final=False)
        (found,) = problems(changed)
        assert found.startswith("a: epoch 0 was acknowledged with")


def test_a_checkpoint_that_says_something_else_than_the_log_is_found() -> None:
    (found,) = problems(account(), saved=((0, 0, 9, 1), (1, 0, 12, 2)))
    assert found.startswith("m: of a it holds (epoch, count, xor) [0, 9, 1]")


def test_a_split_that_was_left_out_is_found_once_the_job_has_read_everything() -> None:
    left_out = account(acknowledged={(0, 0): Acknowledged(10, 1)}, final=False)
    assert problems(left_out) == ["b: epoch 0 was never acknowledged"]
    assert problems(left_out, complete=False) == []


def test_a_final_checkpoint_before_the_end_of_a_split_is_found() -> None:
    positions = ((0, 0, 10, 1), (1, 0, 5, 9))
    (found,) = problems(account(positions=positions))
    assert found.startswith("b: the final checkpoint stands at")
    assert problems(account(positions=positions), sifted=True) == []
    assert problems(account(positions=((0, 0, 10, 1), (1, 0, 12, 9))), sifted=True)


def test_a_log_that_claims_any_number_of_epochs_costs_no_more_than_its_lines() -> None:
    claimed = account(final=False)
    claimed.epochs = 10**15
    found = problems(claimed)
    assert len(found) == NAMED + 1
    assert found[-1] == f"{2 * 10**15 - 2 - NAMED:,} more epochs of splits were never acknowledged"
