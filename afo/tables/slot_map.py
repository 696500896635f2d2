"""Slot map: which embedding server owns which of the slots that keys are hashed to (afo/core/slot_map.h)."""

import itertools
from functools import cache

import msgspec

from afo.errors import SpecError

#: What a key's hash says (afo/core/hash.h): it never changes, or no checkpoint could be read any more.
SLOTS = 1 << 16


class SlotMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Server s owns the slots from `starts[s]` up to `starts[s + 1]`, the last server those up to the end.

    A range may be empty: a server that comes or goes owns no slots for a while. Raises SpecError for starts that are no
    map, which whoever decodes one sees as a ValidationError.
    """

    #: The first slot of each server: they begin with 0 and do not descend.
    starts: tuple[int, ...]
    #: Of a job's maps, in the order in which they were made; the first is 0.
    version: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.starts, tuple) or any(type(each) is not int for each in (*self.starts, self.version)):
            raise SpecError(
                f"a slot map has the starts {self.starts!r} and the version {self.version!r}; give a tuple of whole"
                " numbers, and a whole number"
            )
        if self.version < 0:
            raise SpecError(f"a slot map has the version {self.version}; give one of 0 or more")
        _check_starts(self.starts)

    @classmethod
    def equal(cls, servers: int) -> "SlotMap":
        """The map whose servers own nearly equal numbers of slots. Raises SpecError for none or more than `SLOTS`."""
        return cls(_equal_starts(servers))

    @property
    def servers(self) -> int:
        """How many servers own slots, or none of them for a while."""
        return len(self.starts)

    @property
    def is_equal(self) -> bool:
        """Whether ranges are those of `equal`, in which case their number says all."""
        return self.starts == _equal_starts(self.servers)

    def range_of(self, server: int) -> range:
        """The slots of a server of this map."""
        return range(self.starts[server], (*self.starts, SLOTS)[server + 1])

    def share_of(self, server: int, rows: int) -> int:
        """How many of so many rows are about this server's, rounded up."""
        if self.is_equal:
            return -(-rows // self.servers)
        return -(-rows * len(self.range_of(server)) // SLOTS)


@cache
def _equal_starts(servers: int) -> tuple[int, ...]:
    return tuple(-(-server * SLOTS // servers) for server in range(servers))


def _check_starts(starts: tuple[int, ...]) -> None:
    if not 1 <= len(starts) <= SLOTS:
        raise SpecError(f"a slot map has {len(starts)} starts; give one for each server, 1 to {SLOTS}")
    if starts[0] != 0:
        raise SpecError(f"the first start of a slot map is {starts[0]}; give 0, for each slot has an owner")
    for number, (before, start) in enumerate(itertools.pairwise(starts), 1):
        if not before <= start <= SLOTS:
            raise SpecError(
                f"start {number} of a slot map is {start}; give {before}, which is the start before it, to {SLOTS}"
            )
