"""A start of the AM waits for its journal's file system."""

import pytest

from afo.errors import ClusterUnreachable
from afo_am.__main__ import patiently


class Away:
    """A NameNode that answers from the n-th question on."""

    def __init__(self, silent: int) -> None:
        self.left, self.asked = silent, 0

    def read(self) -> str:
        self.asked += 1
        if self.asked <= self.left:
            raise ClusterUnreachable("connection refused")
        return "the journal"


def test_it_is_read_once_it_is_there() -> None:
    away = Away(3)
    assert patiently(away.read, patience_s=60, pause_s=0.001) == "the journal"
    assert away.asked == 4


def test_patience_has_an_end() -> None:
    away = Away(10**9)
    with pytest.raises(ClusterUnreachable, match="connection refused"):
        patiently(away.read, patience_s=0.05, pause_s=0.01)
    assert 1 < away.asked <= 6


def test_other_errors_are_told_at_once() -> None:
    def broken() -> str:
        raise ValueError("no journal at all")

    with pytest.raises(ValueError, match="no journal at all"):
        patiently(broken, patience_s=60)
