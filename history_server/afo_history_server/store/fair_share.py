"""Room that several owners share: whoever wants little gets it, however much others want."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fair_share(wants: Iterable[int], room: int) -> int:
    """The most that one may have so that all fit into `room`; what others do not want is shared by the rest."""
    ascending = sorted(wants)
    for number, want in enumerate(ascending):
        share = room // (len(ascending) - number)
        if want > share:
            return share
        room -= want
    return ascending[-1] if ascending else 0


def choose_fairly(items: Sequence[T], owner: Callable[[T], str], room: int) -> list[T]:
    """At most `room` of the items, in their order: the first ones of each owner, by fair shares."""
    counts = Counter(map(owner, items))
    share = fair_share(counts.values(), room)
    spare = room - sum(min(count, share) for count in counts.values())
    taken, found = Counter[str](), list[T]()
    for item in items:
        who = owner(item)
        if taken[who] < share or (taken[who] == share and spare > 0):
            spare -= taken[who] == share
            taken[who] += 1
            found.append(item)
    return found
