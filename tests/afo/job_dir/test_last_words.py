"""What a log says of an end without a verdict."""

import pytest

from afo.job_dir.last_words import end_words, last_words

_TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    f()\nValueError: no\n'
_INFO = "2026-11-28 10:00:00,000 INFO SplitDone(split=3)\n"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (f"{_INFO}error: the journal is damaged\n{_INFO}", "error: the journal is damaged"),
        (f"{_INFO}{_TRACEBACK}", "ValueError: no"),
        (f"{_TRACEBACK}{_INFO}error: it is over\n", "error: it is over"),
        # Of a supervisor that was killed, and of a start long before the last.
        (_INFO, ""),
        (f"error: old\n{_TRACEBACK}{_INFO * 15}", ""),
        ("", ""),
    ],
)
def test_the_last_words_are_a_reason(log: str, words: str) -> None:
    assert last_words(log.encode()) == words


def test_without_a_reason_the_last_lines_are_shown() -> None:
    assert end_words(b"error: this is why\n") == "error: this is why"
    assert end_words(b"".join(b"%d\n" % number for number in range(20))).splitlines()[:2] == [
        "the end of its log:",
        "5",
    ]
    assert end_words(b"") == "the end of its log:\nit is empty"
