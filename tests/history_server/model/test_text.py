"""Values as text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from afo_history_server.model import text as words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (math.nan, "–"), (math.inf, "–"), (-3, "0.0 s"), (0.04, "0.0 s"), (9.94, "9.9 s"), (59.9, "59 s"),
     (60, "1 min 0 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (86399, "23 h 59 min"), (90000, "1 d 1 h")],
)  # fmt: skip
def test_spans(seconds: float | None, text: str) -> None:
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (200 << 20, "200 MiB"), (5 << 40, "5.0 TiB"),
                       (5 << 50, "5120 TiB")]
)  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert words.size(size) == text


def test_numbers() -> None:
    assert [words.metric(value) for value in (0.84749, 200000.0, None, math.nan)] == ["0.8475", "200,000", "–", "–"]
    assert [words.number(value) for value in (1234567, 0.09982, 2, 19800.2, None)] == [
        "1,234,567", "0.09982", "2", "19,800", "–",
    ]  # fmt: skip
    assert (words.share(0.634), words.share(None)) == ("63 %", "–")


@given(st.floats())
def test_no_time_is_refused(seconds: float) -> None:
    assert words.when(seconds)
    assert isinstance(words.iso(seconds), str)


def test_what_a_page_shows_does_not_steer() -> None:
    assert words.harmless("a\u202eb\x1b[1mc\x00") == "a\ufffdbc\ufffd"
    assert words.harmless(Markup("<b>\u202e</b>")) == Markup("<b>\u202e</b>"), "each part of it was looked at"
    assert words.harmless(5) == 5
