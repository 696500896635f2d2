"""Journals whose lines are damaged: the AM comes back with the state that it had, or says which line it lacks."""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from afo import storage
from afo.errors import DataError, StorageError
from afo.events import event_log
from afo.events import types as ev
from afo.events.event_log import Record
from afo.formats import json_file
from afo.job.paths import JobPaths
from afo_am.__main__ import main
from afo_am.core.core import Core
from afo_am.engine.journal import Journal
from afo_am.engine.replay import DamagedJournal, read_earlier
from afo_am.state.apply import OBSERVATIONS
from afo_am.supervisor.supervision import FINAL_CODES
from fake_cluster import FakeCluster, make_config
from journaled_state import journaled_state

CONFIG = make_config(workers=2, ps=2, files=4, epochs=3)


@dataclass
class Written:
    """The journal of a whole job whose AM died twice, on the disk."""

    paths: JobPaths
    records: tuple[Record, ...]
    #: Lines of each segment, by its URL.
    segments: dict[str, list[bytes]]

    @property
    def places(self) -> list[tuple[str, int]]:
        return [(url, number) for url, lines in self.segments.items() for number in range(len(lines))]

    def place_of(self, kind: type, which: int = -1) -> tuple[str, int]:
        """Segment and index of an event's line."""
        at = [number for number, record in enumerate(self.records) if isinstance(record.event, kind)][which]
        return self.places[at]

    def write(self, url: str, lines: list[bytes]) -> None:
        Path(url).write_bytes(b"".join(lines))

    def restore(self) -> None:
        for url, lines in self.segments.items():
            self.write(url, lines)
        shutil.rmtree(f"{self.paths.dir}/damaged", ignore_errors=True)

    def damage(self, place: tuple[str, int], change: Callable[[bytes], bytes]) -> None:
        url, number = place
        lines = list(self.segments[url])
        lines[number] = change(lines[number])
        self.write(url, lines)


def story() -> FakeCluster:
    cluster = FakeCluster(CONFIG, seed=5)
    for turn in range(100):
        if turn in (10, 20):
            cluster.start_am()
        if turn == 15:
            cluster.end_container(cluster.live("worker")[0].handle, "it is gone")
        if turn % 8 == 7:
            cluster.time += 25  # the AM looks at its clocks: samples and what is used
        cluster.turn()
        if cluster.finished:
            return cluster
    raise AssertionError("the job did not end")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Written:
    paths = JobPaths(str(tmp_path_factory.mktemp("jobs")), CONFIG.job_id)
    log, seq = story().log, 0
    log.insert(-5, (ev.TasksUsed(tasks=()), log[-5][1]))  # which no fake Child tells
    begins = [number for number, (event, _) in enumerate(log) if isinstance(event, ev.AmStarted)]
    begins[0] = 0
    for incarnation, (begin, end) in enumerate(zip(begins, [*begins[1:], None], strict=True), 1):
        Journal(paths, 1, incarnation, seq).write(log[begin:end])
        seq += len(log[begin:end])
    segments = sorted(info.url for info in storage.list_dir(paths.events))
    lines = {url: storage.read_bytes(url).splitlines(keepends=True) for url in segments}
    return Written(paths, read_earlier(paths, "").records, lines)


@pytest.fixture
def written(job: Written) -> Iterator[Written]:
    yield job
    job.restore()


def state(records: tuple[Record, ...]) -> dict[str, object]:
    core = Core(CONFIG, now=0.0)
    for record in records:
        core.replay(record.event, record.time)
    return journaled_state(core)


def kept(job: Written) -> dict[str, bytes]:
    folder = Path(job.paths.dir, "damaged")
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}


def zeroed(line: bytes) -> bytes:
    """Its end is gone, as with the sector of a disk."""
    return line[:-30] + b"\0" * 29 + b"\n"


def test_the_story_has_what_is_to_be_damaged(job: Written) -> None:
    assert len(job.segments) == 3
    assert [record.seq for record in job.records] == list(range(1, len(job.records) + 1))
    kinds = {type(record.event) for record in job.records}
    assert kinds >= {ev.JobStarted, ev.Sample, ev.TasksUsed, ev.SplitDone, ev.CheckpointWritten, ev.TaskEnded}


def test_nothing_that_is_decided_rests_on_an_observation(job: Written) -> None:
    without = tuple(record for record in job.records if type(record.event) not in OBSERVATIONS)
    expected = state(job.records)
    assert len(without) < len(job.records)
    assert state(without) == {**expected, "step": state(without)["step"]}
    assert all(event not in OBSERVATIONS for event in (ev.SplitDone, ev.GangReleased, ev.OrderGiven))


@pytest.mark.parametrize("kind", [ev.JobStarted, ev.SplitDone, ev.TaskEnded, ev.JobFinished])
def test_one_flipped_bit_changes_nothing(written: Written, kind: type, caplog: pytest.LogCaptureFixture) -> None:
    url, number = place = written.place_of(kind)
    written.damage(place, lambda line: line[:60] + bytes([line[60] ^ 16]) + line[61:])
    damaged = Path(url).read_bytes().splitlines()[number]
    for _ in range(2):  # a start finds the line as the one before it did
        assert read_earlier(written.paths, "").records == written.records
    assert kept(written) == {f"{Path(url).name}.line{number + 1}": damaged}
    offset = sum(map(len, written.segments[url][:number]))
    assert f"{url}, line {number + 1} (byte {offset}): the event log is damaged: one bit of it" in caplog.text


def test_a_lost_observation_is_named_and_passed_over(written: Written, caplog: pytest.LogCaptureFixture) -> None:
    written.damage(written.place_of(ev.Sample), zeroed)
    earlier = read_earlier(written.paths, "")
    missing = [record for record in written.records if record not in earlier.records]
    assert [type(record.event) for record in missing] == [ev.Sample]
    assert earlier.last_seq == len(written.records)
    assert "Sample is lost, and nothing follows from it" in caplog.text
    assert len(kept(written)) == 1


def test_a_lost_decision_ends_the_am_with_what_is_lost_and_how_to_go_on(written: Written) -> None:
    url, number = place = written.place_of(ev.SplitDone)
    written.damage(place, zeroed)
    seq = written.places.index(place) + 1
    with pytest.raises(DamagedJournal) as caught:
        read_earlier(written.paths, "/models")
    offset = sum(map(len, written.segments[url][:number]))
    model = f"/models/{CONFIG.job_id}"
    assert str(caught.value) == (
        f"{url}, line {number + 1} (byte {offset}): the event log is damaged: event {seq} (SplitDone) cannot be read"
        " any more, and what followed from it is not known; damaged lines are kept in"
        f" {written.paths.dir}/damaged, the model that was saved last in {model};"
        f" `afo resubmit {CONFIG.job_id} --set checkpoint.warm_start={model}` begins with that model, and reads all"
        " data"
    )
    assert len(kept(written)) == 1
    assert isinstance(caught.value, DataError)
    assert caught.value.exit_code in FINAL_CODES, "another start would read the same"


def test_the_am_does_not_start_on_what_it_cannot_know(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written.damage(written.place_of(ev.SplitDone), zeroed)
    config = tmp_path / "am.json"
    config.write_bytes(json_file.encode(replace(CONFIG, jobs_root=written.paths.root)))
    before = {url: Path(url).read_bytes() for url in written.segments}
    assert main(["afo_am", str(config)]) in FINAL_CODES
    assert re.search(r"^error: .*line \d+ .*SplitDone", capsys.readouterr().err, re.MULTILINE)
    assert {info.url: storage.read_bytes(info.url) for info in storage.list_dir(written.paths.events)} == before


@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda event: replace(event, first=1), "from number 1 on, and the list of splits has 0: some are missing"),
     (lambda event: replace(event, first=-1), "from number -1 on, and .* has 0: some would be there twice"),
     (lambda event: ev.KillRequested(user="u", reason=""), r"split \d is read, and the list of splits has 0")],
)  # fmt: skip
def test_a_list_of_splits_that_cannot_be_right_ends_the_am(
    written: Written, change: Callable[[ev.SplitsAdded], ev.AnyEvent], words: str
) -> None:
    place = written.place_of(ev.SplitsAdded)
    record = written.records[written.places.index(place)]
    assert isinstance(record.event, ev.SplitsAdded)
    written.damage(place, lambda line: event_log.encode_line(replace(record, event=change(record.event))))
    with pytest.raises(DamagedJournal, match=f"line .* the event log is damaged: .*{words}, and what followed"):
        read_earlier(written.paths, "")


def test_splits_behind_a_closed_list_end_the_am(written: Written) -> None:
    url, number = written.place_of(ev.SplitsAdded)
    record = written.records[written.places.index((url, number))]
    assert isinstance(record.event, ev.SplitsAdded)
    known = len(record.event.splits)
    more = replace(record, seq=record.seq + 1, event=replace(record.event, first=known))
    lines = written.segments[url][: number + 1]
    written.write(url, [*lines, event_log.encode_line(more)])
    with pytest.raises(DamagedJournal, match=f"from number {known} on, and the list of splits was closed with {known}"):
        read_earlier(written.paths, "")


def test_without_a_checkpoint_another_job_begins_anew(written: Written) -> None:
    first, *others = written.segments
    for url in others:
        Path(url).unlink()
    written.write(first, [zeroed(written.segments[first][0]), *written.segments[first][1:3]])
    with pytest.raises(
        DamagedJournal, match=r"line 1 .*event 1 \(JobStarted\).*`afo resubmit local_1_0001` begins anew"
    ):
        read_earlier(written.paths, "")


def test_the_end_of_a_segment_that_is_missing_shows_in_the_next(written: Written) -> None:
    first, second, _ = written.segments
    written.write(first, written.segments[first][:-2])
    seq = len(written.segments[first]) - 1
    with pytest.raises(DamagedJournal, match=rf"^{re.escape(second)}, line 1 .* 2 events, number {seq} to {seq + 1},"):
        read_earlier(written.paths, "")


@pytest.mark.parametrize("rest", [b'{"v":3,"seq":', b"", b"\0" * 40])
def test_what_a_crash_left_of_a_line_is_no_damage(
    written: Written, rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for url, lines in written.segments.items():
        written.write(url, [*lines, rest])
    assert read_earlier(written.paths, "").records == written.records
    assert (caplog.text, kept(written)) == ("", {})


def test_lines_that_hold_no_event_are_passed_over_where_none_is_missing(written: Written) -> None:
    url = next(iter(written.segments))
    lines = written.segments[url]
    written.write(url, [*lines[:3], b"grown there\n", *lines[3:]])
    assert read_earlier(written.paths, "").records == written.records
    assert list(kept(written).values()) == [b"grown there"]


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_last_newline_does_not_make_its_line_a_torn_one(written: Written, bit: int) -> None:
    written.damage(written.places[-1], lambda line: line[:-1] + bytes([line[-1] ^ 1 << bit]))
    assert read_earlier(written.paths, "").records == written.records
    assert len(kept(written)) == 1


def test_a_line_that_is_there_twice_counts_once(written: Written) -> None:
    written.damage(written.place_of(ev.SplitDone), lambda line: line + line)
    assert read_earlier(written.paths, "").records == written.records
    assert len(kept(written)) == 1


def test_an_observation_of_another_number_stands_for_no_lost_event(written: Written) -> None:
    observed = written.place_of(ev.TasksUsed)
    line = written.segments[observed[0]][observed[1]]
    written.damage(written.place_of(ev.SplitDone), lambda _: zeroed(line))
    with pytest.raises(DamagedJournal, match=r"damaged: event \d+ cannot be read"):
        read_earlier(written.paths, "")


def test_what_is_written_next_follows_on_what_is_known_to_be_lost(written: Written) -> None:
    last = list(written.segments)[-1]
    at = written.place_of(ev.TasksUsed)
    assert at[0] == last
    written.write(last, [*written.segments[last][: at[1]], zeroed(written.segments[last][at[1]])])
    earlier = read_earlier(written.paths, "")
    assert earlier.last_seq == written.places.index(at) + 1
    Journal(written.paths, 1, 4, earlier.last_seq).write([(ev.KillRequested(user="bob", reason=""), 1.0)])
    try:
        assert read_earlier(written.paths, "").records[-1].seq == earlier.last_seq + 1
    finally:
        Path(written.paths.events_segment(1, 4)).unlink()


def test_an_event_of_another_version_is_not_left_out(written: Written) -> None:
    line = event_log.encode_line(written.records[3]).replace(b"ContainerRequested", b"ContainerTeleported")
    written.damage(written.places[3], lambda _: event_log.seal(line[:-22] + b"}") + b"\n")
    with pytest.raises(DamagedJournal, match=r"line 4 .*'ContainerTeleported', an event of another version of afo"):
        read_earlier(written.paths, "")


def test_a_journal_of_version_1_is_read(tmp_path: Path, job: Written) -> None:
    paths = JobPaths(str(tmp_path), CONFIG.job_id)
    for incarnation, lines in enumerate(job.segments.values(), 1):
        old = [re.sub(rb'^{"v":5,"seq":\d+', b'{"v":1,"seq":%d' % seq, line[:-22]) for seq, line in enumerate(lines, 1)]
        storage.write_bytes(paths.events_segment(1, incarnation), b"".join(line + b"}\n" for line in old))
    earlier = read_earlier(paths, "")
    assert [record.event for record in earlier.records] == [record.event for record in job.records]
    assert earlier.last_seq == len(lines)
    second = Path(paths.events_segment(1, 2))
    second.write_bytes(second.read_bytes().replace(b'"SplitDone"', b'"Split\0one"', 1))
    with pytest.raises(DamagedJournal, match=re.escape(str(second))):
        read_earlier(paths, "")


def test_an_append_that_failed_uses_up_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = JobPaths(str(tmp_path), CONFIG.job_id)
    journal, events = Journal(paths, 1, 1, 0), [(ev.KillRequested(user="bob", reason=""), 1.0)] * 2

    def full(url: str, data: bytes) -> NoReturn:
        raise StorageError("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "append", full)
        with pytest.raises(StorageError):
            journal.write(events)
    journal.write(events)
    assert [record.seq for record in read_earlier(paths, "").records] == [1, 2]


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, Callable[[bytes], bytes]]:
    """A name, and what happens to a line with its newline."""
    at = st.integers(0, 10_000)
    first, second, bit, junk = draw(at), draw(at), draw(st.integers(0, 7)), draw(st.binary(min_size=1, max_size=40))

    def swap(line: bytes) -> bytes:
        changed, one, other = bytearray(line), first % len(line), second % len(line)
        changed[one], changed[other] = line[other], line[one]
        return bytes(changed)

    def cut(line: bytes) -> bytes:
        begin, end = sorted((first % len(line), second % len(line)))
        return line[:begin] + line[end + 1 :]

    def flip(line: bytes) -> bytes:
        place = first % len(line)
        return line[:place] + bytes([line[place] ^ 1 << bit]) + line[place + 1 :]

    def overwrite(line: bytes) -> bytes:
        place = first % len(line)
        return line[:place] + junk[: len(line) - place] + line[place + len(junk) :]

    changes: dict[str, Callable[[bytes], bytes]] = {
        "flip": flip, "swap": swap, "cut": cut, "overwrite": overwrite, "delete": lambda line: b"",
        "duplicate": lambda line: line + line, "flip two": lambda line: swap(flip(line)),
    }  # fmt: skip
    return draw(st.sampled_from(sorted(changes.items())))


@settings(max_examples=300, deadline=None)
@given(data=st.data(), damage=damages())
def test_no_damage_of_a_line_leads_to_another_state(
    job: Written, data: st.DataObject, damage: tuple[str, Callable[[bytes], bytes]]
) -> None:
    places, (name, change) = job.places, damage
    at = data.draw(st.integers(0, len(places) - 1))
    url, number = places[at]
    line = job.segments[url][number]
    damaged = change(line)
    if at == len(places) - 1 and b"\n" not in damaged and name != "flip":
        return  # a crash in the middle of the last append, or before it, leaves the same
    job.damage(places[at], lambda _: damaged)
    try:
        earlier, problem = read_earlier(job.paths, ""), ""
    except DamagedJournal as error:
        earlier, problem = None, str(error)
    found = kept(job)
    job.restore()
    if earlier is None:
        near = places[max(0, at - 1) : at + 3]
        assert problem.startswith(tuple(f"{url}, line {number + 1} (byte" for url, number in near))
        return
    lost = [record for record in job.records if record not in earlier.records]
    assert earlier.records == tuple(record for record in job.records if record not in lost)
    assert {type(record.event) for record in lost} <= OBSERVATIONS
    assert earlier.last_seq == len(job.records)
    assert bool(found) == (damaged != line)
