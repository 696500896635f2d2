"""What a checkpoint took of each server."""

import time
from collections.abc import Iterator

import pytest

from afo.rpc.messages import ServerPart
from afo.tables.save_times import SaveTimes


class Clock:
    """A time that moves where the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def blocks(self, *seconds: float) -> Iterator[bytes]:
        """A block after each of these waits."""
        for each in seconds:
            self.now += each
            yield b"rows"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


def test_a_slow_server_and_a_slow_file_system_are_told_apart(clock: Clock) -> None:
    times = SaveTimes()
    for server, waits in ((1, (0.5, 0.25)), (0, (8.0, 2.0)), (1, (0.25,))):
        with times.stream(server) as stream:
            for block in stream.read(clock.blocks(*waits)):
                clock.now += 1.0  # the file system takes a second for each
                stream.bytes += len(block)
    assert times.parts() == (
        ServerPart(server=0, bytes=8, read_s=10.0, write_s=2.0),
        ServerPart(server=1, bytes=12, read_s=1.0, write_s=3.0),
    )
    assert times.parts()[0].seconds == 12.0


def test_a_stream_that_broke_is_not_counted(clock: Clock) -> None:
    times = SaveTimes()

    def save() -> None:
        with times.stream(3):
            clock.now += 1.0
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        save()
    assert times.parts() == ()
