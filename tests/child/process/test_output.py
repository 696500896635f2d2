"""What a process writes: moved to where it goes, and the progress in it."""

import os

from hypothesis import given
from hypothesis import strategies as st

from afo_child.process.output import MAX_LINE, ProgressReader, Pump


def test_progress_survives_every_cut_and_every_garbage() -> None:
    text = b'{"phase":"training","step":1}\nnonsense\n\xff\xfe\n{"phase":"done","step":2}\n{"phase":"tra'
    for cut in range(len(text)):
        reader = ProgressReader()
        reader.feed(text[:cut])
        reader.feed(text[cut:])
        assert reader.newest is not None
        assert (reader.newest.phase, reader.newest.step, reader.malformed) == ("done", 2, 2)


@given(st.lists(st.binary(max_size=200)))
def test_progress_takes_any_bytes(chunks: list[bytes]) -> None:
    reader = ProgressReader()
    for chunk in chunks:
        reader.feed(chunk)


def test_an_endless_line_of_progress_takes_no_memory() -> None:
    reader = ProgressReader()
    for _ in range(100):
        reader.feed(b"x" * MAX_LINE)
    assert reader.malformed >= 50
    reader.feed(b'\n{"phase":"done"}\n')
    assert reader.newest is not None


def test_the_pump_moves_everything_and_ends() -> None:
    (reader, writer), taken = os.pipe(), bytearray()
    pump = Pump({reader: taken.extend})
    pump.start()
    os.write(writer, b"a" * 1000)
    os.close(writer)
    pump.join(60)
    assert bytes(taken) == b"a" * 1000
