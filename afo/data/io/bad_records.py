"""Records that cannot be read: counted, named in the log, and an error where the job allows none.

Bad is a record whose checksum is wrong, that is no `tf.Example`, that holds a feature of another kind or length than
the schema says, that lacks its label, weight or sample id, or whose label is neither 0 nor 1. `data.max_bad_records` is
a share of all records of the job, and one file says little about it: processes count, and whoever knows all counts
judges.
"""

import sys
from collections.abc import Hashable, Sized
from typing import NamedTuple

from afo.errors import DataError

#: Bad records that a process names in its log; further ones are counted alone.
NAMED = 100


class Tally(NamedTuple):
    """The bad records of a split."""

    bad: int = 0
    #: Those of them that could not be read: nobody knows more of them than their place.
    unread: int = 0
    #: Where one of them stands and what is wrong with it.
    first: str = ""


NONE = Tally()


class BadRecords:
    """The bad records of one process."""

    def __init__(self, allowed: float, named: int = NAMED) -> None:
        self._allowed = allowed
        self._named = named
        #: So far, each reading of a file counted.
        self.total = 0
        self._by_split: dict[Hashable, Tally] = {}

    @property
    def may_be(self) -> bool:
        """Whether the job allows any."""
        return self._allowed > 0

    @property
    def is_named(self) -> bool:
        """Whether the next one is worth finding its place."""
        return self.total < self._named

    def add(self, split: Hashable, what: str, *, unread: bool) -> None:
        """One more; `what` names file and place. Raises DataError if the job allows none."""
        if not self.may_be:
            raise DataError(f"{what}; write the file again, or allow a share of them by `data.max_bad_records`")
        if self.is_named:
            print(f"warning: {what}; skipped", file=sys.stderr)
        before = self._by_split.get(split, NONE)
        self._by_split[split] = Tally(before.bad + 1, before.unread + unread, before.first or what)
        self.total += 1
        if self.total == self._named:
            print("warning: further bad records are counted and not named", file=sys.stderr)

    def pop(self, split: Hashable) -> Tally:
        """Those of a split that was read to its end."""
        return self._by_split.pop(split, NONE)

    def judge(self, records: int, source: str) -> None:
        """Raises DataError if these are more than the job allows of `records`, bad ones included."""
        if self.total > self._allowed * records:
            raise DataError(too_many(self.total, records, self._allowed, source))


def too_many(bad: int, records: int, allowed: float, source: str) -> str:
    """Why a job fails: it has more bad records than it allows."""
    return (
        f"{bad:,} of {records:,} records of {source} are bad, and `data.max_bad_records` allows a share of"
        f" {allowed:g}; the tasks' logs name them: write those files again or allow more"
    )


def misfit_of_count(name: str, values: Sized) -> str:
    """What is wrong with a label, weight or sample id that is not one value; '' if nothing."""
    return "" if len(values) == 1 else f"it holds {len(values)} values of `{name}` where one is needed"


def misfit_of_label(name: str, value: object) -> str:
    """What is wrong with a label's value; '' if nothing."""
    return "" if value in (0, 1) else f"the label `{name}` is {value} and must be 0 or 1"
