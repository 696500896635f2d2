"""What a job says is shown without anything that steers what shows it."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.formats.plain_text import plain


@pytest.mark.parametrize(
    "text",
    ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07red", "\x1b]8;;http://x\x1b\\red\x1b]8;;\x1b\\", "r\x1b[2Ked", "r\x08ed",
     "r\x85ed", "\u202ered\u202c", "r\u2066ed\u2069", "red\u200f", "\u061cred", "r\u2028ed", "red\ud800"],
)  # fmt: skip
def test_what_steers_is_taken_out(text: str) -> None:
    assert plain(text) == "red"
    assert plain(text, "?").replace("?", "") == "red"


@pytest.mark.parametrize("text", ["", "naïve\t名前\r\n", "👩\u200d🔬", "שלום"])
def test_other_text_stays(text: str) -> None:
    assert plain(text) == text


@settings(deadline=None)
@given(st.text(st.characters() | st.sampled_from("\x1b[]0;m\x07\u202e")))
def test_nothing_that_steers_is_left(text: str) -> None:
    clean = plain(text)
    assert all(unicodedata.category(each) not in ("Cc", "Cs", "Zl", "Zp") or each in "\t\r\n" for each in clean)
    assert not any(unicodedata.bidirectional(each) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI") for each in clean)
    assert plain(clean) == clean
