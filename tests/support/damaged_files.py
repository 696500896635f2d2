"""Ways in which a file of a job is damaged, or made by somebody who means harm."""

import os
from typing import BinaryIO

from hypothesis import strategies as st

NESTED = b'{"a":' * 100_000
#: Keys that no text may have, and brackets without an end.
HOSTILE = (b"", b"{", b"[]", b"null", b"\xff", NESTED, b"[" * 100_000, b'{"\xff": 1}', b'{"\\ud800": 1}', b"1" * 5000)


def broken(file: BinaryIO) -> BinaryIO:
    """An open local file, as if its disk had broken since: it can be neither read nor positioned any more."""
    reading, writing = os.pipe()
    os.dup2(writing, file.fileno(), inheritable=False)
    os.close(reading)
    os.close(writing)
    return file


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with a bit flipped, cut off, something put in its place or into it."""
    if not whole or draw(st.booleans()):
        return draw(st.sampled_from(HOSTILE) | st.binary(max_size=50))
    place = draw(st.integers(0, len(whole) - 1))
    match draw(st.sampled_from(["flip", "cut", "insert"])):
        case "flip":
            return whole[:place] + bytes([whole[place] ^ (1 << draw(st.integers(0, 7)))]) + whole[place + 1 :]
        case "cut":
            return whole[:place]
        case _:
            return whole[:place] + draw(st.sampled_from(HOSTILE)) + whole[place:]
