"""Which version the next one has the changes of, and which ones stay."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.trainable.served.export_info import Exported
from afo.trainable.served.export_versions import (
    Version,
    choose_parent,
    hidden_name,
    is_number,
    next_number,
    remove_old,
)


def version(number: int, parent: int | None, deltas: int) -> Version:
    exported = Exported(manifest="m", step=1, labels=("y",), directory=f"d{number}", parent=parent, deltas=deltas)
    return Version(number, str(number), exported)


def depth(there: list[Version], number: int) -> int:
    """Versions below this one."""
    parents = {each.number: each.exported.parent for each in there}
    found = 0
    while (parent := parents[number]) is not None:
        number, found = parent, found + 1
    return found


@given(full_every=st.integers(1, 64), lost=st.sets(st.integers(0, 100)))
def test_versions_lie_on_few_others_and_on_one_that_the_checkpoint_goes_back_to(
    full_every: int, lost: set[int]
) -> None:
    there: list[Version] = []
    for number in range(100):
        bases = {f"d{before}" for before in range(number) if before not in lost}
        parent = choose_parent(there, bases, full_every)
        if parent is None:
            there.append(version(number, None, 0))
        else:
            assert parent.exported.directory in bases
            there.append(version(number, parent.number, there[-1].exported.deltas + 1))
        assert there[-1].exported.deltas < full_every
        most = (full_every - 1).bit_length() if not lost else full_every - 1
        assert depth(there, number) <= most
    if not lost:
        assert sum(each.exported.parent is None for each in there) == -(-100 // full_every)


def test_what_stands_on_a_version_that_is_gone_is_no_parent() -> None:
    there = [version(1, None, 0), version(2, 1, 1), version(3, 1, 2), version(4, 3, 3), version(5, 4, 4)]
    bases = {f"d{number}" for number in range(1, 6)}

    def parent_of(*numbers: int) -> int | None:
        chosen = choose_parent([each for each in there if each.number in numbers], bases, 16)
        return chosen and chosen.number

    assert parent_of(1, 2, 3, 4, 5) == 5
    assert parent_of(1, 2, 4, 5) == 2
    assert parent_of(1, 2, 3, 5) == 3
    assert parent_of(1, 4, 5) == 1
    assert choose_parent([version(1, None, 0), version(2, 3, 1), version(3, 2, 2)], bases, 16) == version(1, None, 0)


def test_numbers_rise_whatever_the_clock_says() -> None:
    assert next_number([]) > 1_700_000_000
    assert next_number([version(2**40, None, 0)]) == 2**40 + 1


def test_only_what_writers_of_versions_left_long_ago_is_removed(tmp_path: Path) -> None:
    old, recent = ".1700000000.0123456789ab.tmp", hidden_name(2**40)
    of_others = (".20261107.local_1700000000000_1.tmp", ".1700000000.model.tmp", "1700000000")
    for name in (old, recent, *of_others):
        (tmp_path / name).mkdir()
    assert remove_old(str(tmp_path), keep=1) == []
    assert {path.name for path in tmp_path.iterdir()} == {recent, *of_others}


@pytest.mark.parametrize("name", ["0", "01", "", "1.tmp", ".3.model.tmp", "-1", "١", "1e3", "x"])
def test_only_plain_numbers_are_versions(name: str) -> None:
    assert not is_number(name)
    assert is_number("17")
