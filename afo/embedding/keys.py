"""The different keys of a batch, dealt out to the embedding servers: what a worker can do before it asks them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from afo.ops.library import load


class Keys(NamedTuple):
    """The different keys of several sets, by server; a nest of tensors. Equal keys of two sets are two keys.

    Several tables may be asked for one set: what a feature's embedding and its linear weight have in common.
    """

    #: For each server its keys, set by set: int64 [n].
    keys: tuple[Any, ...]
    #: For each server where in them each set begins, and their number: int32 [sets + 1].
    splits: tuple[Any, ...]
    #: For each server how often each key was among the ids: int32 [n].
    counts: tuple[Any, ...]
    #: The place of each id's key (afo/core/unique.h), run by run: int32 [ids].
    places: Any
    #: How many ids each run has: int64 [runs].
    lengths: Any

    @property
    def sets(self) -> int:
        """How many sets of keys there are."""
        return int(self.splits[0].shape[0]) - 1 if self.splits else 0


def unique_keys(ids: Sequence[Any], sets: Sequence[int], servers: int) -> Keys:
    """`ids`: int64 [n] each. `sets`: to which set each of them belongs; all numbers from 0 on."""
    if not ids:
        return Keys((), (), (), (), ())
    found = load().afo_unique(ids, run_tables=list(sets), num_tables=max(sets) + 1, num_servers=servers)
    return Keys(tuple(found.keys), tuple(found.splits), tuple(found.counts), found.places, found.lengths)
