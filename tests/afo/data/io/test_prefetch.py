"""One item ahead, in another thread."""

import threading
from collections.abc import Iterator

import pytest

from afo.data.io.parquet import prefetch


def made(log: list[int], count: int) -> Iterator[int]:
    for number in range(count):
        log.append(number)
        yield number


def test_all_items_in_their_order() -> None:
    assert list(prefetch(range(100))) == list(range(100))
    assert list(prefetch([])) == []
    assert list(prefetch([None, 1])) == [None, 1]


def test_no_more_than_one_is_ahead_and_closing_waits_for_it() -> None:
    log: list[int] = []
    items = prefetch(made(log, 10))
    assert log == []
    assert [next(items), next(items)] == [0, 1]
    items.close()  # type: ignore[attr-defined]
    assert log == [0, 1, 2]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_an_error_comes_where_the_item_would_have_come() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    items = prefetch(broken())
    assert next(items) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)
