"""The newest events of a job within bounds of number and bytes, whatever they hold."""

import sys

import msgspec

from afo.events import types as ev
from afo.events.event_log import Record, Unknown, UnknownRecord
from afo_history_server.model.job_history import AnyRecord
from afo_history_server.model.newest_events import KEPT_BYTES, KEPT_EVENTS, MAX_KEPT, NewestEvents, encode
from job_writer import task_id


def known(number: int, reason: str = "") -> Record:
    event = ev.KillRequested(user="ann", reason=reason)
    return Record(seq=number, am_attempt=1, incarnation=1, time=float(number), event=event)


def unknown(number: int, value: object) -> UnknownRecord:
    event = Unknown("Boo", {"type": "Boo", "x": value})
    return UnknownRecord(v=9, seq=number, am_attempt=1, incarnation=1, time=1.0, event=event)


def newest(*records: AnyRecord) -> tuple[AnyRecord, ...]:
    kept = NewestEvents()
    for record in records:
        kept.add(record, encode(record))
    return kept.records()


def test_what_was_added_comes_back_newest_first() -> None:
    sample = ev.Sample(step=1, samples=2, samples_per_s=3.0, input_wait=0.5, loss=None)
    task = ev.TaskAtWork(task=task_id("worker"), generation=1)
    records = [known(1, "ü\x00"), unknown(2, [{"a": 1 << 63}, None, 0.5]),
               *(msgspec.structs.replace(known(3), event=event) for event in (sample, task))]  # fmt: skip
    assert newest(*records) == tuple(reversed(records))


def test_they_are_so_many_at_most() -> None:
    kept = newest(*map(known, range(KEPT_EVENTS + 3)))
    assert [record.seq for record in kept] == list(range(KEPT_EVENTS + 2, 2, -1))


def test_all_together_have_so_many_bytes_at_most() -> None:
    size = MAX_KEPT // 2
    kept = newest(*(known(number, "x" * size) for number in range(100)))
    assert [record.seq for record in kept] == list(range(99, 99 - KEPT_BYTES // (size + 150), -1))


def test_a_long_one_is_only_told_of() -> None:
    record = unknown(7, [[]] * MAX_KEPT)
    [kept] = newest(record)
    assert kept.event == Unknown("Boo", {"type": "Boo", "left_out": f"{len(encode(record))} bytes"})
    assert (kept.seq, sys.getsizeof(encode(kept)) < 200) == (7, True)
    assert newest(known(8, "x" * MAX_KEPT))[0].event.type == "KillRequested"
