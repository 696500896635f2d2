"""Findings of `afo check`: the account of a job's records against its newest checkpoint and its files. Pure."""

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from afo.events.accounting import Account, Acknowledged, Position
from afo.protocol.offline_task import RecountedSplit

#: Of findings of one kind, as many are named.
NAMED = 10


class Findings(Struct, frozen=True, kw_only=True):
    """`problems`: what must not be; `recounted`: how many splits were read again."""

    account: Account
    recounted: int
    problems: tuple[str, ...]


def findings(
    account: Account, saved: Sequence[Position] | None, recounted: Sequence[RecountedSplit], *, complete: bool,
    sifted: bool,
) -> Findings:  # fmt: skip
    """Compare. `saved`: positions as the newest checkpoint itself has them; None: unknown.

    `complete`: the job read all of its data. `sifted`: it may leave records out, sampled negatives or bad ones; those
    behind the last one that is trained on are in a split's acknowledgement, and in no position.
    """
    problems = [*_against_files(account, recounted), *_against_checkpoint(account, saved)]
    if complete:
        problems += _never_acknowledged(account)
        problems += _never_closed(account)
        problems += _against_final(account, sifted)
    return Findings(account=account, recounted=len(recounted), problems=tuple(problems))


def _never_acknowledged(account: Account) -> list[str]:
    """The first of them, since a log can claim any number of epochs, and how many more there are."""
    named = list(islice(account.missing(), NAMED))
    problems = [f"{account.splits[split]}: epoch {epoch} was never acknowledged" for split, epoch in named]
    more = account.number_missing - len(named)
    return [*problems, f"{more:,} more epochs of splits were never acknowledged"] if more > 0 else problems


def _never_closed(account: Account) -> list[str]:
    if account.closed:
        return []
    return [f"the event log never closed the list of splits, which has {len(account.splits)}, and the job read all"]


def _against_files(account: Account, recounted: Sequence[RecountedSplit]) -> list[str]:
    """Every epoch of a split holds what the file holds."""
    held = {split.number: Acknowledged(split.count, split.xor, split.bad, split.unread) for split in recounted}
    return [
        f"{account.splits[split]}: epoch {epoch} was acknowledged with {_text(done)}, "
        f"and the file holds {_text(held[split])}"
        for (split, epoch), done in sorted(account.acknowledged.items())
        if split in held and held[split] != done
    ]


def _against_checkpoint(account: Account, saved: Sequence[Position] | None) -> list[str]:
    if saved is None or sorted(saved) == sorted(account.positions):
        return []
    logged = {split: rest for split, *rest in account.positions}
    stored = {split: rest for split, *rest in saved}
    differing = sorted(split for split in logged.keys() | stored.keys() if logged.get(split) != stored.get(split))
    return [
        f"{account.manifest}: of {account.splits[split]} it holds (epoch, count, xor) {stored.get(split)}, "
        f"and the event log says {logged.get(split)}"
        for split in differing
    ]


def _against_final(account: Account, sifted: bool) -> list[str]:
    """The model that a job ends with stands at the end of every split."""
    if not account.final:
        return []
    last, reached = account.epochs - 1, {split: tuple(rest) for split, *rest in account.positions}
    return [
        f"{account.splits[split]}: the final checkpoint stands at (epoch, count, xor) {reached.get(split)}, "
        f"and {_text(done)} were acknowledged in epoch {last}"
        for (split, epoch), done in sorted(account.acknowledged.items())
        if epoch == last and not _is_end(reached.get(split), epoch, done, sifted)
    ]


def _is_end(reached: tuple[int, ...] | None, epoch: int, done: Acknowledged, sifted: bool) -> bool:
    if reached == (epoch, done.count, done.xor):
        return True
    return sifted and reached is not None and reached[0] == epoch and reached[1] < done.count


def _text(done: Acknowledged) -> str:
    bad = f", {done.bad:,} bad" if done.bad else ""
    return f"{done.count:,} records (xor {done.xor:016x}{bad})"
