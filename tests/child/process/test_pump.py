"""What a process writes, moved to where it goes."""

import os

from afo_child.process.pump import Pump


def test_the_pump_moves_everything_and_ends() -> None:
    (reader, writer), taken = os.pipe(), bytearray()
    pump = Pump({reader: taken.extend})
    pump.start()
    os.write(writer, b"a" * 1000)
    os.close(writer)
    pump.join(60)
    assert bytes(taken) == b"a" * 1000
