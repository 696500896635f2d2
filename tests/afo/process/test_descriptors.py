"""How many files a process may have open."""

import resource

import pytest

from afo.process import descriptors


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What the system says, and what was set."""
    told = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: told[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, both: told.append(both))
    return told


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [
        (1024, 4096, 4096),
        (1024, 10**9, descriptors.MOST),
        (1024, resource.RLIM_INFINITY, descriptors.MOST),
        (10**6, 10**9, 10**6),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_it_is_of_use(
    limits: list[tuple[int, int]], soft: int, hard: int, after: int
) -> None:
    limits[:] = [(soft, hard)]
    descriptors.raise_limit()
    assert limits[-1] == (after, hard)


def test_a_limit_that_cannot_be_raised_is_said(
    limits: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(which: int, both: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refused)
    descriptors.raise_limit()
    assert "at most 1024 files can be open, as the limit cannot be raised to 4096" in caplog.text


@pytest.mark.parametrize(
    ("soft", "connections"), [(4096, 3584), (256, 64), (resource.RLIM_INFINITY, descriptors.MOST - 512)]
)
def test_connections_leave_descriptors_to_the_process(
    limits: list[tuple[int, int]], soft: int, connections: int
) -> None:
    limits[:] = [(soft, soft)]
    assert descriptors.for_connections() == connections
