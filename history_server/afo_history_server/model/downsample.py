"""A long series kept within a bound."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Downsampled(Generic[T]):
    """Every n-th item and the newest one, at most `limit` + 1 of them; n doubles whenever there would be more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: list[T] = []
        self._stride = 1
        self._taken = 0
        self._newest: list[T] = []

    def add(self, item: T) -> None:
        """The next one."""
        self._newest = [item]
        if self._taken % self._stride == 0:
            self._kept.append(item)
        self._taken += 1
        if len(self._kept) > self._limit:
            self._kept = self._kept[::2]
            self._stride *= 2

    def items(self) -> tuple[T, ...]:
        """In their order."""
        newest_is_kept = (self._taken - 1) % self._stride == 0
        return (*self._kept, *([] if newest_is_kept else self._newest))
