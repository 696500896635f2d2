"""Plan of a transfer from another model, part by part. Pure, no TensorFlow here."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from afo.checkpoint.tensor_map import Section


class Move(NamedTuple):
    """`size` rows, elements or columns of a tensor, from where they lay to where they lie."""

    tensor: str
    source: int
    target: int
    size: int


class Plan(NamedTuple):
    """What is taken over. The texts name a part, the reason, and where it lies."""

    moves: tuple[Move, ...]
    #: Tensors whose optimizer is the same, so that its state moves as well.
    with_slots: frozenset[str]
    kept: tuple[str, ...]
    made_new: tuple[str, ...]
    dropped: tuple[str, ...]

    def of(self, tensor: str) -> tuple[Move, ...]:
        """The moves of one tensor, by their source."""
        return tuple(sorted((move for move in self.moves if move.tensor == tensor), key=lambda move: move.source))


def plan(
    new: Iterable[Section], old: Iterable[Section], rules: Mapping[str, str], old_rules: Mapping[str, str]
) -> Plan:
    """`rules`: optimizer of each trained tensor, by name."""
    here = {(section.tensor, section.name): section for section in new}
    there = {(section.tensor, section.name): section for section in old}
    owners_here, owners_there = _owners(here.values()), _owners(there.values())
    moves, kept, made_new, dropped = [], _Texts(), _Texts(), _Texts()
    for key, section in here.items():
        before = there.get(key)
        if before is not None and before.kind == section.kind and before.count == section.count:
            moves.append(Move(section.tensor, before.first, section.first, section.count))
            kept.add(section, "")
        elif before is not None:
            made_new.add(section, f"was {before.kind}, is {section.kind}")
        else:
            made_new.add(section, "was not there" if section.owner in owners_there else "new")
    for key, section in there.items():
        if key not in here:
            dropped.add(section, "no longer there" if section.owner in owners_here else "not in this model")
    changed = [name for name in rules if name in old_rules and rules[name] != old_rules[name]]
    # The tables of one part have one optimizer: `deep/user` and `deep/city` are told as `deep`.
    parts = dict.fromkeys((name.split("/")[0], old_rules[name], rules[name]) for name in changed)
    notes = tuple(f"optimizer state of {part}: was {before}, is {now}" for part, before, now in parts)
    same = frozenset(name for name in rules if rules[name] == old_rules.get(name))
    return Plan(tuple(moves), same, kept.texts, made_new.texts + notes, dropped.texts)


def _owners(sections: Iterable[Section]) -> set[str]:
    return {section.owner for section in sections}


class _Texts:
    """Parts with the same owner and reason in one text."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}

    def add(self, section: Section, reason: str) -> None:
        places = self._places.setdefault((section.owner, reason), [])
        if section.place not in places:
            places.append(section.place)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(
            f"{owner}{': ' if reason else ''}{reason} ({', '.join(places)})"
            for (owner, reason), places in self._places.items()
        )
