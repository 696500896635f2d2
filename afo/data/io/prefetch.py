"""Prefetch by one item: another thread makes the next one while this one is used."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")


def ahead(items: Iterable[_Item]) -> Iterator[_Item]:
    """The same items; raises what they raise. When it is closed, nothing is under way any more."""
    source = iter(items)
    over = object()
    with ThreadPoolExecutor(1, "ahead") as thread:
        coming = thread.submit(next, source, over)
        while (item := coming.result()) is not over:
            coming = thread.submit(next, source, over)
            yield item  # type: ignore[misc]
