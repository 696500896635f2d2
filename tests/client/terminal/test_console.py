import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.errors import NotFound
from afo_client.cli import main
from afo_client.terminal.console import (
    iso,
    json_line,
    pluralize,
    print_result,
    say,
    size_text,
    span_text,
    table,
    without_control,
)


def test_json_has_a_version_and_no_nan() -> None:
    assert json.loads(json_line({"loss": float("nan"), "name": "é"})) == {"api": "afo/v1", "loss": None, "name": "é"}


def test_json_steers_no_terminal() -> None:
    name = "a\x9b\x7f\u202e\u2069é"
    line = json_line({"name": name})
    assert without_control(line) == line
    assert json.loads(line)["name"] == name


def test_times_are_utc() -> None:
    assert iso(1_700_000_000.5) == "2023-11-14T22:13:20.500Z"
    assert iso(0) is None


@pytest.mark.parametrize("seconds", [1e300, -1e12, 1e18, float("nan"), float("inf"), 10**400, -(10**400)], ids=range(7))
def test_a_time_that_no_calendar_has_is_none(seconds: float) -> None:
    assert iso(seconds) is None


def test_numbers_beyond_a_float_are_shown() -> None:
    assert size_text(10**400) == "inf TiB"
    assert span_text(10**400) == "inf s"
    assert span_text(float("nan")) == "nan s"
    assert pluralize(10**400, "file").endswith(",000 files")


def test_one_is_singular() -> None:
    assert [pluralize(number, "file") for number in (0, 1, 1200)] == ["0 files", "1 file", "1,200 files"]


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07red", "r\x1b[2Ked", "r\x08ed", "\x9bred".replace("\x9b", "\x00")]
)
def test_control_sequences_are_removed(text: str) -> None:
    assert without_control(text) == "red"


@settings(deadline=None)
@given(st.text())
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    clean = without_control(text)
    assert all(character in "\t\n" or ord(character) >= 32 for character in clean)
    assert without_control(clean) == clean


@pytest.mark.parametrize("printed", [say, print_result])
def test_what_is_printed_steers_nothing_but_by_our_own_head(
    printed: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    printed("\x1b[8mhidden\x1b]0;title\x07\r\u202eturned\nmore", head="\x1b[1mours \x1b[0m")
    assert "".join(capsys.readouterr()) == "\x1b[1mours \x1b[0mhiddenturned\nmore\n"


def test_raw_text_goes_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_result("\x1b[1mbold\r", raw=True)
    assert capsys.readouterr().out == "\x1b[1mbold\r\n"


def test_a_message_with_text_of_a_job_steers_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise NotFound("no job \x1b[2J\u202ename")

    monkeypatch.setattr(main.afo, "main", failing)
    assert main.run(["status"]) == NotFound.exit_code
    assert capsys.readouterr().err == "error: no job name\n"


def test_a_table_keeps_a_line_a_row() -> None:
    assert table(("A", "B"), [("x\ny", "1"), ("long name", "\x1b[1m2")]) == "A          B\nx y        1\nlong name  2"


def test_sizes_and_spans() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 3 << 30)] == ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]
    assert [span_text(s) for s in (1.5, 42, 200, 7500)] == ["1.5 s", "42 s", "3 min 20 s", "2 h 5 min"]
