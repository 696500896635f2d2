"""A place in a log is found by its words, by what looks like an error, and by time; each look is bounded."""

import datetime
import io
import random
import re

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from afo import storage
from afo_history_server.logs import log_search
from afo_history_server.logs.log_range import read_range
from afo_history_server.logs.log_search import ERRORS, FOUND, place_of_time, search, words
from afo_history_server.store.job_files import JobFiles
from job_writer import RUNNING, JobWriter
from pages import text
from pages import words as page_words

ADDRESS = f"/jobs/{RUNNING}/logs/worker_0/0/stderr"
T0 = datetime.datetime(2026, 11, 21, 8, tzinfo=datetime.UTC).timestamp()
LINES = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=60)


class Counted(io.BytesIO):
    """Counts the bytes that are read."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


@given(LINES, st.integers(1, 50), st.booleans())
def test_ranges_side_by_side_hold_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], length: int, ends: bool
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    (folder / "log").write_bytes(data)
    files = JobFiles(str(folder))
    ranges = [read_range(files, f"{folder}/log", start, length) for start in range(0, len(data), length)]
    begins = [0, *(place + 1 for place in range(len(data)) if data[place : place + 1] == b"\n")]
    whole = [line for part in ranges for line in part.lines if line.offset in begins]
    assert [line.offset for line in whole] == [begin for begin in begins if begin < len(data)]
    for shown, line in zip(whole, data.split(b"\n"), strict=False):
        if len(line) < length:  # a longer one may be cut
            assert shown.text == line.rstrip(b"\r").decode(errors="replace")


@given(LINES, st.sampled_from([b"a", b"A", b"\xff", b"ab", b"."]), st.integers(1, 90))
def test_each_line_that_holds_the_words_is_found(lines: list[bytes], needle: bytes, limit: int) -> None:
    data = b"\n".join(lines)
    pattern = re.compile(re.escape(needle), re.IGNORECASE)
    found: list[int] = []
    before = len(data)
    while before:
        part = search(io.BytesIO(data), before, len(data), pattern, limit)
        assert part.start < before
        assert part.stop - part.start <= limit
        found = [line.offset for line in part.lines] + found
        before = part.start
    begins, place = [], 0
    for line in lines:
        begins += [place] if needle.lower() in line.lower() else []
        place += len(line) + 1
    if limit > max(map(len, lines), default=0):  # else a search may see a part of a line alone
        assert found == begins


def test_a_search_reads_no_more_than_it_may_and_says_where_it_stopped() -> None:
    data = b"nothing here\n" * 2_000_000
    file = Counted(data)
    found = search(file, len(data), len(data), words("absent"), limit=5 << 20)
    assert found.lines == ()
    assert not found.whole
    assert 5 << 20 >= len(data) - found.start > (5 << 20) - 20
    assert file.taken <= (5 << 20) + 5 * 13, "a line that a piece cuts is read again"


def test_many_hits_end_a_search_at_the_first_of_them() -> None:
    data = b"hit\n" * 1000
    last = search(io.BytesIO(data), len(data), len(data), words("HIT"))
    assert [line.offset for line in last.lines] == list(range(4000 - 4 * FOUND, 4000, 4))
    earlier = search(io.BytesIO(data), last.start, len(data), words("hit"))
    assert earlier.lines[-1].offset == 4000 - 4 * FOUND - 4


def test_a_search_begins_at_the_end() -> None:
    """The last line of a log of 512 MiB is found by the first look, not after eight."""
    data = b"INFO step\n" * 1_000_000 + b"ValueError: here\n"
    file = Counted(data)
    found = search(file, len(data), len(data), ERRORS, limit=1 << 20)
    assert [line.text for line in found.lines] == ["ValueError: here"]
    assert file.taken <= 1 << 20


def test_words_are_no_pattern() -> None:
    data = b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n(a+)+$\n"
    assert [line.text for line in search(io.BytesIO(data), len(data), len(data), words("(A+)+$")).lines] == ["(a+)+$"]


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "ValueError: no feature",
        "tensorflow.python.framework.errors_impl.AbortedError: gone",
        "2026-11-21 08:00:00,123 ERROR afo: no",
        "F1121 08:00:00.123456  7 main.cc:3] Check failed",
        "E0000 00:00:1795294397.549149   24010 port.cc:153] no",
        "Segmentation fault (core dumped)",
        "OSError: [Errno 28] No space left on device",
    ],
)
def test_what_looks_like_an_error(line: str) -> None:
    assert ERRORS.search(line.encode())


@pytest.mark.parametrize("line", ["0 errors so far", "INFO ErrorHandler is set", "I0000 00:00:1795294397.5 error free"])
def test_what_does_not(line: str) -> None:
    assert not ERRORS.search(line.encode())


def stamped(number: int, style: int) -> bytes:
    """A line of that second, in one of the styles that a log has."""
    moment = datetime.datetime.fromtimestamp(T0 + number, datetime.UTC)
    return [
        f"{moment:%Y-%m-%d %H:%M:%S},000 INFO step {number}",
        f"I{moment:%m%d %H:%M:%S}.000001  7 file.cc:1] step {number}",
        f"I0000 00:00:{int(T0 + number)}.5  7 file.cc:1] step {number}",
        f"[worker] {moment:%Y-%m-%dT%H:%M:%S}Z step {number}",
    ][style].encode()


@pytest.mark.parametrize("style", range(4))
def test_a_time_is_found_by_halving(style: int) -> None:
    chance, parts = random.Random(style), []
    for number in range(0, 20_000, 2):
        parts += [stamped(number, style), *[b"  a line without a time"] * chance.choice([0, 1, 5])]
    data = b"\n".join(parts)
    for wanted in (0, 1, 777, 10_000, 19_998):
        file = Counted(data)
        place = place_of_time(file, len(data), T0 + wanted, 2026)
        assert data[place:].split(b"\n", 1)[0] == stamped(wanted + wanted % 2, style)
        assert file.taken < len(data) + (2 << 20)
    assert place_of_time(io.BytesIO(data), len(data), T0 + 30_000, 2026) == len(data)
    assert place_of_time(io.BytesIO(data), len(data), T0 - 30_000, 2026) == 0


def test_a_long_stretch_without_a_time_hides_no_later_one() -> None:
    data = stamped(1, 0) + b"\n" + b"a frame of a stack\n" * 100_000 + stamped(5, 0) + b"\n" + stamped(6, 0)
    place = place_of_time(io.BytesIO(data), len(data), T0 + 5, 2026)
    assert data[place:].startswith(stamped(5, 0))


def test_days_that_are_none_are_no_time() -> None:
    data = b"2026-02-31 08:00:00 x\nI1399 08:00:00.1 x\n" + stamped(3, 0)
    assert place_of_time(io.BytesIO(data), len(data), T0, 2026) == data.index(stamped(3, 0))


def test_the_pages_lead_to_the_line(client: FlaskClient, running: JobWriter) -> None:
    lines = [stamped(number, 0) for number in range(2000)]
    lines[1500] = b"ValueError: <b>no</b> feature"
    running.write_log("worker_0", 0, "stderr", b"\n".join(lines))
    place = len(b"\n".join(lines[:1500])) + 1
    for question in ("errors=1", "q=valueerror"):
        found = text(client, f"{ADDRESS}/search?{question}")
        assert f"{ADDRESS}?offset={place - 2048}#b{place}" in found
        assert "ValueError: &lt;b&gt;no&lt;/b&gt; feature" in found
        assert "Search earlier" not in found
    assert f'<span id="b{place}" class="bad">' in text(client, f"{ADDRESS}?offset={place - 2048}")
    answer = client.get(f"{ADDRESS}/at?time=2026-11-21T08:10")
    place = len(b"\n".join(lines[:600])) + 1
    assert (answer.status_code, answer.location) == (302, f"{ADDRESS}?offset={place}#b{place}")
    late = client.get(f"{ADDRESS}/at?time=2027-01-01")
    assert (late.status_code, late.location) == (302, ADDRESS)


def test_a_search_goes_on_where_it_stopped(client: FlaskClient, running: JobWriter) -> None:
    running.write_log("worker_0", 0, "stderr", b"hit\n" * 300)
    first = text(client, f"{ADDRESS}/search?q=hit")
    assert "200 lines in bytes 400 to 1,200 of 1,200" in page_words(first)
    [further] = re.findall(r'rel="prev" href="([^"]*)"', first)
    assert "100 lines in bytes 0 to 400 of 1,200" in page_words(text(client, further.replace("&amp;", "&")))


@pytest.mark.parametrize(
    "question",
    [
        "search",
        "search?q=",
        "search?q=+",
        "search?errors=2",
        "search?q=a&before=-1",
        "search?q=a&regex=1",
        "at",
        "at?time=x",
    ],
)
def test_what_cannot_be_looked_for_is_said(client: FlaskClient, running: JobWriter, question: str) -> None:
    running.write_log("worker_0", 0, "stderr", b"a")
    assert "allowed" in text(client, f"{ADDRESS}/{question}", 400)


def test_only_the_end_of_a_running_jobs_log_is_followed(client: FlaskClient, running: JobWriter) -> None:
    running.write_log("worker_0", 0, "stderr", b"a\n")
    assert "data-follow" in text(client, ADDRESS)
    assert "data-follow" not in text(client, f"{ADDRESS}?offset=0")
    running.end("SUCCEEDED", "succeeded")
    assert "data-follow" not in text(client, ADDRESS)


def test_a_log_that_is_no_file_is_not_found(client: FlaskClient, running: JobWriter) -> None:
    storage.make_dirs(f"{running.paths.logs}/worker_0/0/stderr")
    for name in ("", "/search?q=a", "/at?time=2026-11-21", "/download"):
        text(client, f"{ADDRESS}{name}", 404)
    assert log_search.SEARCHED <= 64 << 20
