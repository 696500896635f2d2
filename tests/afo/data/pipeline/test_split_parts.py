"""Files that are cut into splits: every record once, places in the file, and no byte of other splits."""

import gzip
import io
import os
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo import storage  # noqa: E402
from afo.data.io.bad_records import BadRecords  # noqa: E402
from afo.data.io.record_blocks import Order, RecordSource, record_blocks  # noqa: E402
from afo.data.io.record_index import read_index, write_index  # noqa: E402
from afo.data.io.split_files import SplitFile, cut_files, find_splits  # noqa: E402
from afo.data.io.tfrecord import RecordWriter, frame, index_records, read_records  # noqa: E402
from afo.data.pipeline import split_fetcher  # noqa: E402
from afo.data.pipeline.batcher import Batch, TrainingInput  # noqa: E402
from afo.data.pipeline.split_reader import Lease, SplitReader  # noqa: E402
from afo.errors import DataError, StorageError  # noqa: E402
from afo.formats.units import Memory  # noqa: E402
from afo.job import Data, Shuffle  # noqa: E402
from afo.models.parser import parser_of  # noqa: E402
from afo.ops import library  # noqa: E402
from afo.storage.backend import BLOCK  # noqa: E402
from afo.storage.hdfs import _HdfsReader  # noqa: E402
from afo.storage.streams import copy_here  # noqa: E402
from afo.storage.url import ByteRange, part_name  # noqa: E402
from click_records import SCHEMA, write_files  # noqa: E402

pytestmark = pytest.mark.tensorflow

DATA = Data(train=("x",), sample_id="sample_id", batch_size=32, shuffle=Shuffle(buffer=0))
MIB = 1 << 20


@pytest.fixture(params=["operation", "TensorFlow"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads."""
    if request.param == "TensorFlow":
        monkeypatch.setattr(library, "load_if_present", lambda: None)


def records_of(path: Path, part: ByteRange, order: Order, refuse: Callable[[str], None] | None = None) -> list[bytes]:
    source = RecordSource(str(path), DATA, refuse, part)
    return [record for block in record_blocks(source, order) for record in block.numpy().tolist()]


def written(path: Path, records: list[bytes]) -> list[int]:
    """Where each record of a new file begins, and the file's end."""
    path.write_bytes(b"".join(frame(record) for record in records))
    return [0, *accumulate(len(record) + 16 for record in records)]


@given(st.lists(st.binary(max_size=60), max_size=40), st.data(), st.integers(1, 50), st.integers(1, 20))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_splits_together_hold_the_records_of_the_file(
    tmp_path: Path, records: list[bytes], data: st.DataObject, buffer: int, block: int
) -> None:
    places = written(tmp_path / "a", records)
    cuts = sorted({0, places[-1], *data.draw(st.lists(st.sampled_from(places), max_size=6))})
    parts = [ByteRange(*each) for each in pairwise(cuts)]
    as_written = [record for part in parts for record in records_of(tmp_path / "a", part, Order(1, 1, 0, block))]
    assert as_written == records
    assert [each for part in parts for each in read_records(str(tmp_path / "a"), part=part)] == records
    mixed = [records_of(tmp_path / "a", part, Order(1, buffer, 0, block)) for part in parts]
    assert sorted(record for part in mixed for record in part) == sorted(records)
    skip = data.draw(st.integers(0, 10))
    assert [records_of(tmp_path / "a", part, Order(1, buffer, skip, block)) for part in parts] == [
        part[skip:] for part in mixed
    ]


def test_a_split_is_read_alike_without_our_operations(tmp_path: Path, reader: None) -> None:
    records = [b"%d" % number * 9 for number in range(100)]
    places = written(tmp_path / "a", records)
    assert records_of(tmp_path / "a", ByteRange(places[20], places[71]), Order(1, 1, 3, 8)) == records[23:71]


def words_of(path: Path, part: ByteRange) -> str:
    with pytest.raises(DataError) as raised:
        records_of(path, part, Order(1, 1, 0, 8))
    with pytest.raises(DataError) as read:
        list(read_records(str(path), part=part))
    assert str(raised.value) == str(read.value)
    return str(raised.value)


def test_borders_within_records_are_errors_that_name_the_place(tmp_path: Path, reader: None) -> None:
    places = written(tmp_path / "a", [bytes(100)] * 10)
    begin, end = places[2], places[5]
    assert words_of(tmp_path / "a", ByteRange(begin + 1, end)).endswith(
        f"a: length of the record at offset {begin + 1} is damaged: wrong checksum; no record of the file begins here:"
        " its index is of another one"
    )
    for beyond, last in ((1, end), (13, end), (115, end), (-1, places[4])):
        assert words_of(tmp_path / "a", ByteRange(begin, end + beyond)).endswith(
            f"a: record at offset {last} does not end within its split, which ends at {end + beyond}: the file is cut"
            " off, or its index is of another one"
        )


def test_a_file_that_became_shorter_is_an_error_wherever_it_ends(tmp_path: Path, reader: None) -> None:
    places = written(tmp_path / "a", [bytes(100)] * 10)
    for size in (places[9] + 50, places[9] + 5, places[9]):
        os.truncate(tmp_path / "a", size)
        words = words_of(tmp_path / "a", ByteRange(places[7], places[10]))
        assert f"record at offset {places[9]} does not end within its split" in words


def test_damage_in_a_split_is_named_by_its_place_in_the_file(tmp_path: Path, reader: None) -> None:
    places = written(tmp_path / "a", [b"%03d" % number for number in range(30)])
    with (tmp_path / "a").open("r+b") as file:
        for number in (4, 15):
            file.seek(places[number] + 12)
            file.write(b"x")
    part = ByteRange(places[10], places[20])
    place = f"data of the record at offset {places[15]} is damaged"
    assert place in words_of(tmp_path / "a", part)
    refused: list[str] = []
    found = records_of(tmp_path / "a", part, Order(1, 1, 0, 4), refused.append)
    assert found == [b"%03d" % number for number in range(10, 20) if number != 15]
    assert [place in each for each in refused] == [True]


def test_the_operation_refuses_senseless_parts(tmp_path: Path) -> None:
    operations = library.load_if_present()
    for part, compression in (((-1, 5), "none"), ((5, 4), "none"), ((0, 5), "gzip"), ((5, -1), "gzip")):
        with pytest.raises(tf.errors.InvalidArgumentError):
            operations.afo_open_records(str(tmp_path), *part, 1, 1, 0, 1, compression=compression, tolerant=False)


class CountingSource(io.RawIOBase):
    """A file of zeros and letters, that notes what is asked of it."""

    def __init__(self, size: int, asked: list[tuple[int, int]]) -> None:
        self._size, self._at, self._asked = size, 0, asked

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._size - self._at)
        self._asked.append((self._at, self._at + size))
        buffer[:size] = bytes((self._at + each) % 251 for each in (0, 1)) * (size // 2) + b"x" * (size % 2)
        self._at += size
        return size


@pytest.mark.parametrize("part", [(0, 10), (BLOCK + 3, 3 * BLOCK + 7), (7, 9 * BLOCK), (5, 5)])
def test_a_copy_of_a_part_fetches_its_bytes_and_no_other(tmp_path: Path, part: tuple[int, int]) -> None:
    asked: list[tuple[int, int]] = []
    size = 10 * BLOCK
    copy_here(lambda: io.BufferedReader(CountingSource(size, asked), BLOCK), str(tmp_path / "here"), part)
    assert sum(end - begin for begin, end in asked) == part[1] - part[0]
    assert [begin for begin, _ in sorted(asked)] == list(range(part[0], part[1], BLOCK))
    assert all(part[0] <= begin < end <= part[1] for begin, end in asked)


class Blocks:
    """What hdfs-native knows of a file; notes which bytes are asked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.content)

    def read_range(self, at: int, size: int) -> bytes:
        self.asked.append((at, at + size))
        return self.content[at : at + size]


class Asking:
    """A cluster that answers."""

    @staticmethod
    def _call_patiently(what: str, path: str, function: Callable[[], bytes]) -> bytes:
        return function()


def test_of_a_file_in_hdfs_no_other_byte_is_asked_for(tmp_path: Path) -> None:
    blocks = Blocks(os.urandom(4 * BLOCK))
    files: Any = Asking()

    def opened() -> Any:
        return io.BufferedReader(_HdfsReader(files, "/a", blocks), BLOCK)

    begin, end = BLOCK + 11, 3 * BLOCK - 11
    copy_here(opened, str(tmp_path / "a"), (begin, end))
    assert blocks.asked == [(begin, begin + BLOCK), (begin + BLOCK, end)]
    assert (tmp_path / "a").read_bytes()[begin:] == blocks.content[begin:end]


def test_a_copied_part_lies_where_it_lies_in_the_file(tmp_path: Path) -> None:
    content = os.urandom(3 * BLOCK)
    (tmp_path / "a").write_bytes(content)
    storage.download(str(tmp_path / "a"), str(tmp_path / "b"), (2 * BLOCK + 5, 3 * BLOCK - 5))
    copied = (tmp_path / "b").read_bytes()
    assert copied == bytes(2 * BLOCK + 5) + content[2 * BLOCK + 5 : 3 * BLOCK - 5]
    assert (tmp_path / "b").stat().st_blocks * 512 <= BLOCK, "what lies before it takes no room"
    with pytest.raises(StorageError, match="cut off meanwhile"):
        storage.download(str(tmp_path / "a"), str(tmp_path / "b"), (0, 3 * BLOCK + 1))


# -- from the file to the batch ----------------------------------------------------------------------------------------


class Source:
    """Leases one after the other."""

    def __init__(self, leases: list[Lease]) -> None:
        self.leases = list(leases)

    def next_split(self) -> Any:
        return self.leases.pop(0) if self.leases else "end"


def batches(leases: list[Lease], data: Data, scratch: Path) -> Iterator[Batch]:
    parser = parser_of(SCHEMA, data)
    with TrainingInput(
        Source(leases).next_split, SCHEMA, data, scratch, parser, lambda records, origins: (records, parser(records))
    ) as reading:
        while (batch := reading.get(30.0)) != "end":
            assert isinstance(batch, Batch), "a batch within 30 s"
            yield batch


def cut(path: Path, ways: int) -> list[ByteRange]:
    """The file in so many parts."""
    places = [0, *accumulate(len(record) + 16 for record in read_records(str(path)))]
    return [
        ByteRange(places[number * (len(places) - 1) // ways], places[(number + 1) * (len(places) - 1) // ways])
        for number in range(ways)
    ]


def copies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int] | None]:
    """Every file counts as one of another machine; the parts that are copied from now on."""
    taken: list[tuple[int, int] | None] = []
    download = storage.download

    def noted(url: str, path: str, part: tuple[int, int] | None = None) -> None:
        taken.append(part)
        download(url, path, part)

    monkeypatch.setattr(split_fetcher, "is_local", lambda _: False)
    monkeypatch.setattr(storage, "download", noted)
    return taken


@pytest.mark.parametrize("copied", [False, True])
def test_a_file_in_splits_gives_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, copied: bool
) -> None:
    write_files(tmp_path / "data", 1, 500)
    [path] = (tmp_path / "data").iterdir()
    parts = cut(path, 6)
    taken = copies(monkeypatch) if copied else None
    leases = [Lease(row, 0, str(path), 0, part) for row, part in enumerate(parts)]
    seen: list[bytes] = []
    ended: list[int] = []
    # Backwards, so that the schema is held against records that are not the file's first.
    for batch in batches(leases[::-1], DATA, tmp_path / "scratch"):
        seen += batch.inputs[0].numpy().tolist()
        ended += [end.lease.split for end in batch.ended]
    assert sorted(seen) == sorted(read_records(str(path)))
    assert sorted(ended) == list(range(6))
    assert taken is None or taken == parts[::-1]
    assert not copied or not list((tmp_path / "scratch").iterdir()), "copies are deleted when they are used"


def test_a_reader_goes_on_within_its_split(tmp_path: Path) -> None:
    write_files(tmp_path / "data", 1, 300)
    [path] = (tmp_path / "data").iterdir()
    part = cut(path, 3)[1]
    data = msgspec.structs.replace(DATA, shuffle=Shuffle(buffer=50, seed=3))

    def records(skip: int) -> list[bytes]:
        reader = SplitReader(Lease(7, 0, str(path), skip, part), path, data, 16, SCHEMA, BadRecords(0))
        return [record for block in iter(reader.next_block, None) for record in block.numpy().tolist()]

    whole = records(0)
    assert sorted(whole) == sorted(read_records(str(path), part=part))
    assert records(33) == whole[33:]


@pytest.mark.parametrize("copied", [False, True])
def test_a_record_that_does_not_fit_is_named_by_its_place_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, copied: bool
) -> None:
    write_files(tmp_path / "data", 1, 300)
    [path] = (tmp_path / "data").iterdir()
    records = list(read_records(str(path)))
    records[250] = b"no example"
    places = written(path, records)
    if copied:
        copies(monkeypatch)
    lease = Lease(0, 0, str(path), 0, ByteRange(places[150], places[300]))
    with pytest.raises(DataError, match=rf"{path}: record at offset {places[250]}: "):
        list(batches([lease], DATA, tmp_path / "scratch"))
    wrong = lease._replace(part=ByteRange(places[150] + 1, places[300]))
    with pytest.raises(DataError, match=rf"{path}: length of the record at offset {places[150] + 1} is damaged"):
        # In a directory of its own: the first input's thread may still delete its copy.
        list(batches([wrong], DATA, tmp_path / "another"))


# -- files to splits ---------------------------------------------------------------------------------------------------


def fill(path: Path, mib: float) -> SplitFile:
    """A file of records of 64 KiB."""
    with RecordWriter(str(path)) as writer:
        writer.write_all(bytes(65_520) for _ in range(int(mib * 16)))
    [found] = find_splits([str(path)])
    return found


def cutting(mib: int, **more: Any) -> Data:
    return Data(train=("x",), split_size=Memory(mib), **more)


def test_files_are_cut_by_their_indexes_and_smaller_ones_stay_whole(tmp_path: Path) -> None:
    large, small = fill(tmp_path / "a", 9.5), fill(tmp_path / "b", 2)
    write_index(large.url, index_records(large.url))
    assert cut_files((large, small), Data(train=("x",))) == (large, small)
    splits = cut_files((large, small), cutting(2))
    assert splits[-1] == small
    assert {split.url for split in splits[:-1]} == {large.url}
    parts = [split.part for split in splits[:-1]]
    assert all(part is not None and MIB <= part.end - part.begin <= 3 * MIB for part in parts)
    assert next(part_name("a", part) for part in parts).startswith("a:0+")
    together = [each for part in parts for each in read_records(large.url, part=part)]
    assert together == list(read_records(large.url))


def test_a_large_file_without_an_index_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    file = fill(tmp_path / "a", 2)
    with pytest.raises(DataError, match=r"\$\.data\.split_size: .*a has .* bytes and no index .*`afo data index .*/a`"):
        cut_files([file], cutting(1))
    with (tmp_path / "a.gz").open("wb") as packed:
        packed.write(gzip.compress((tmp_path / "a").read_bytes() + os.urandom(2 * MIB)))
    [packed_file] = find_splits([str(tmp_path / "a.gz")])
    assert cut_files([packed_file], cutting(1)) == (packed_file,), "a compressed file is read from its start alone"
    assert cut_files([file], cutting(1, compression="gzip")) == (file,)
    with pytest.raises(DataError, match=r"\$\.data\.split_size: .*a.gz has"):
        cut_files([packed_file], cutting(1, compression="none"))


def test_a_file_that_is_not_the_indexed_one_is_refused(tmp_path: Path) -> None:
    write_index(fill(tmp_path / "a", 2).url, index_records(str(tmp_path / "a")))
    with (tmp_path / "a").open("ab") as file:
        file.write(frame(b"one more"))
    [longer] = find_splits([str(tmp_path / "a")])
    with pytest.raises(DataError, match=r"made for a file of 2,097,152 bytes, and .*a has 2,097,176: write it with"):
        cut_files([longer], cutting(1))
    read_index(longer.url, 2 * MIB)
