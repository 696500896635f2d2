"""Lines of the event log: what is written, what is read of every version, and what damage looks like."""

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from afo.events import event_log
from afo.events import types as ev
from afo.events.event_log import Record, UnknownRecord
from afo.rpc.messages import TaskId

TASK = TaskId(role="worker", index=0, attempt=1)
RECORD = Record(
    seq=3, am_attempt=1, incarnation=2, time=1.5, event=ev.SplitLeased(task=TASK, split=7, epoch=0, resume=True)
)
#: Written by the version before checksums.
VERSION_1 = (
    b'{"v":1,"seq":3,"am_attempt":1,"incarnation":2,"time":1.5,"event":{"type":"SplitLeased",'
    b'"task":{"role":"worker","index":0,"attempt":1},"row":7,"epoch":0,"resume":true}}'
)
LINE = event_log.encode_line(RECORD).removesuffix(b"\n")
LONG = event_log.encode_line(
    Record(seq=4, am_attempt=1, incarnation=2, time=1.5, event=ev.KillRequested(user="ü", reason="x" * 3000))
).removesuffix(b"\n")


def flipped(line: bytes, bit: int) -> bytes:
    changed = bytearray(line)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_line_is_json_and_ends_with_its_checksum() -> None:
    body = VERSION_1.replace(b'"v":1', b'"v":5').replace(b"row", b"split").removesuffix(b"}")
    assert body + b',"crc32c":"2826b007"}' == LINE
    assert event_log.decode_line(LINE) == RECORD


def test_a_split_was_called_row_before_version_4() -> None:
    version_3 = VERSION_1.replace(b'"v":1', b'"v":3').removesuffix(b"}") + b',"crc32c":"e8a0aa68"}'
    record = event_log.decode_line(version_3)
    assert isinstance(record, Record)
    assert (record.v, record.event) == (3, RECORD.event)
    assert event_log.decode_line(version_3.replace(b'":7,"', b'":8,"')) is None, (
        "its checksum is that of what was written"
    )
    later = event_log.decode_line(event_log.seal(VERSION_1.replace(b'"v":1', b'"v":4')))
    assert isinstance(later, UnknownRecord), "and is not any more"


def test_the_first_event_listed_the_splits_until_version_4() -> None:
    version_4 = (
        b'{"v":4,"seq":1,"am_attempt":1,"incarnation":1,"time":1.5,"event":{"type":"JobStarted","job_id":"j",'
        b'"name":"n","user":"u","queue":"q","runtime":"local","afo_version":"1","submitted":1.0,'
        b'"train_files":["a","b:0+5"],"eval_files":[],"epochs":2}}'
    )
    record = event_log.decode_line(event_log.seal(version_4))
    assert isinstance(record, Record)
    assert isinstance(record.event, ev.JobStarted)
    assert record.event.train_files == ("a", "b:0+5")
    new = event_log.decode_line(event_log.seal(version_4.replace(b'"train_files":["a","b:0+5"],', b"")))
    assert isinstance(new, Record)
    assert isinstance(new.event, ev.JobStarted)
    assert new.event.train_files is None, "which is not the same as none"


def test_a_line_of_version_1_has_no_checksum() -> None:
    record = event_log.decode_line(VERSION_1)
    assert isinstance(record, Record)
    assert (record.v, record.seq, record.event) == (1, 3, RECORD.event)


LATER = VERSION_1.replace(b"SplitLeased", b"Teleported")


@pytest.mark.parametrize("line", [LATER, event_log.seal(LATER.replace(b'"v":1', b'"v":9'))])
def test_an_unknown_event_is_kept_in_every_version(line: bytes) -> None:
    record = event_log.decode_line(line)
    assert isinstance(record, UnknownRecord)
    assert (record.event.type, record.event.raw["row"]) == ("Teleported", 7)


def test_a_checksum_that_is_cut_off_or_that_an_older_line_would_not_have_is_damage() -> None:
    assert event_log.decode_line(LINE[:-21] + b"}") is None
    assert event_log.decode_line(LINE.replace(b'"v":5', b'"v":1')) is None
    assert event_log.decode_line(LINE.replace(b'"v":5', b'"v":0')) is None


@pytest.mark.parametrize("line", [LINE, LONG], ids=["short", "long"])
def test_one_flipped_bit_is_seen_wherever_it_is_and_mended(line: bytes) -> None:
    bits = range(len(line) * 8)
    for bit in bits if line is LINE else random.Random(1).sample(bits, 200):
        damaged = flipped(line, bit)
        assert event_log.decode_line(damaged) is None
        assert event_log.repair_line(damaged) == line
    for bit in range(8):
        assert event_log.repair_line(line + flipped(b"\n", bit)) == line


@given(st.sampled_from([LINE, LONG]), st.data())
def test_other_damage_is_seen_and_never_mended_into_another_line(line: bytes, data: st.DataObject) -> None:
    place = st.integers(0, len(line) - 1)
    first, second = data.draw(place), data.draw(place)
    swapped = bytearray(line)
    swapped[first], swapped[second] = line[second], line[first]
    begin, end = sorted((first, second))
    overwritten = line[:begin] + data.draw(st.binary(min_size=end - begin, max_size=end - begin)) + line[end:]
    twice = flipped(flipped(line, first * 8), second * 8 + 1)
    for damaged in (bytes(swapped), overwritten, twice, line[:begin] + line[end:], line[:begin], line + line):
        if damaged != line:
            assert event_log.decode_line(damaged) is None
            assert event_log.repair_line(damaged) in (None, line)


def foreign(event: str, time: str = "1.5", seq: str = "3") -> bytes:
    """An intact line, whoever wrote it."""
    head = f'{{"v":3,"seq":{seq},"am_attempt":1,"incarnation":2,"time":{time},"event":'
    return event_log.seal(f"{head}{event}}}".encode())


SAMPLE = '{"type":"Sample","step":%s,"samples":1,"samples_per_s":1.0,"input_wait":0.1,"loss":0.5}'
LATEST = '{"type":"Teleported","row":%s}'


@pytest.mark.parametrize("event", [SAMPLE, LATEST])
@pytest.mark.parametrize(
    ("number", "fits"), [(1 << 64, False), (-(10**400), False), (-(1 << 63) - 1, False), ((1 << 64) - 1, True),
                         (-(1 << 63), True)],
    ids=["above", "far-below", "below", "largest", "least"],
)  # fmt: skip
def test_an_integer_beyond_64_bits_is_damage(event: str, number: int, fits: bool) -> None:
    assert (event_log.decode_line(foreign(event % number)) is not None) == fits
    assert (event_log.decode_line(foreign(event % 1, seq=str(number))) is not None) == fits


@pytest.mark.parametrize("event", [SAMPLE, LATEST])
@pytest.mark.parametrize(
    ("time", "fits"), [("0", True), ("253402300799.9", True), ("-0.1", False), ("253402300800", False),
                       ("1e300", False), ("-1e300", False)]
)  # fmt: skip
def test_a_time_that_no_date_has_is_damage(event: str, time: str, fits: bool) -> None:
    assert (event_log.decode_line(foreign(event % 1, time)) is not None) == fits


def test_an_unknown_event_is_nested_within_a_bound() -> None:
    assert event_log.decode_line(foreign(LATEST % ("[" * 62 + "]" * 62))) is not None
    for depth in (65, 300, 900):
        assert event_log.decode_line(foreign(LATEST % ("[" * depth + "]" * depth))) is None
        assert event_log.decode_line(foreign(LATEST % ('{"a":' * depth + "1" + "}" * depth))) is None


def test_a_line_that_is_too_long_is_passed_over_as_it_grows_and_stops_a_log_once_it_is_endless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_log, "MAX_PASSED", 3000)
    log, begun = event_log.LogReader(max_line=1000), b"x" * 2500
    assert list(log.take("a", io.BytesIO(begun))) == []
    assert list(log.take("a", io.BytesIO(begun + b"\n" + LINE + b"\n" + LINE))) == [RECORD]
    assert (log.damaged, log.stopped) == (1, "")
    endless = io.BytesIO(b"x" * 100_000)
    assert list(log.take("b", endless)) == []
    assert (log.stopped, endless.tell()) == ("a line of it is longer than 3000 bytes", 4000)
    assert list(log.take("c", io.BytesIO(LINE + b"\n"))) == []


def test_a_reader_may_bound_the_lines_of_events_that_do_not_name_each_split() -> None:
    started = ev.JobStarted(
        job_id="j", name="n", user="u", queue="q", runtime="local", afo_version="1", submitted=1.0,
        train_files=("x" * 1000,), eval_files=(), epochs=1,
    )  # fmt: skip
    lines = b"".join(
        event_log.encode_line(structs.replace(RECORD, event=event))
        for event in (started, ev.KillRequested(user="x" * 1000, reason=""))
    )
    kept, whole = event_log.LogReader(max_other=1000), event_log.LogReader()
    assert [record.event for record in kept.take("a", io.BytesIO(lines))] == [started]
    assert (kept.damaged, kept.read) == (1, len(lines))
    assert len(list(whole.take("a", io.BytesIO(lines)))) == 2
