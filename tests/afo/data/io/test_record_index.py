"""The index of a TFRecord file: what it holds, what is wrong with damaged ones, how a file is cut by it."""

import struct
from itertools import accumulate, pairwise
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo import storage
from afo.data.io.record_index import (
    MOST_BYTES,
    IndexBuilder,
    RecordIndex,
    index_url,
    parse_index,
    read_index,
    write_index,
)
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import RecordWriter, index_records
from afo.errors import DataError, NotFound

LENGTHS = st.lists(st.integers(16, 300), max_size=60)


def built(lengths: list[int], spacing: int) -> RecordIndex:
    builder = IndexBuilder(spacing)
    for length in lengths:
        builder.add(length)
    return builder.build()


def same(a: RecordIndex, b: RecordIndex) -> bool:
    return a.encode() == b.encode()


def signed(content: bytes) -> bytes:
    return content + struct.pack("<I", google_crc32c.value(content))


@given(LENGTHS, st.integers(1, 1000))
def test_an_index_is_read_as_it_was_written(lengths: list[int], spacing: int) -> None:
    index = built(lengths, spacing)
    assert (index.size, index.records) == (sum(lengths), len(lengths))
    starts = [0, *accumulate(lengths)]
    assert [starts[number] for number in index.numbers] == index.offsets.tolist()
    assert all(after - before >= spacing for before, after in pairwise(index.offsets))
    again = parse_index(index.encode(), "x")
    assert (again.size, again.records) == (index.size, index.records)
    assert again.offsets.tolist() == index.offsets.tolist()
    assert again.numbers.tolist() == index.numbers.tolist()


@given(LENGTHS, st.integers(1, 1000), st.integers(1, 5000))
def test_parts_are_all_of_the_file_cut_between_records(lengths: list[int], spacing: int, most: int) -> None:
    index = built(lengths, spacing)
    parts = index.parts(most)
    assert (parts[0].begin, parts[-1].end) == (0, index.size)
    assert all(before.end == after.begin for before, after in pairwise(parts))
    assert {part.begin for part in parts} <= {0, *index.offsets.tolist()}
    assert all(0 < part.end - part.begin <= most + spacing + 300 for part in parts) or not lengths
    if spacing == 1 and lengths and most >= 600:
        assert len(parts) == -(-index.size // most), "no fewer than asked for where records are short"


@given(st.data(), LENGTHS)
def test_a_damaged_index_is_an_error_that_names_it(data: st.DataObject, lengths: list[int]) -> None:
    whole = built(lengths, 100).encode()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DataError, match=r"^hdfs://nn/x is no index .*write it again with `afo data index`"):
        parse_index(whole[:cut], "hdfs://nn/x")
    flipped = bytearray(whole)
    flipped[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DataError, match="hdfs://nn/x is no index"):
        parse_index(bytes(flipped), "hdfs://nn/x")


NUMBERS = st.one_of(st.integers(0, 200), st.integers(0, (1 << 64) - 1), st.sampled_from([1 << 62, (1 << 64) - 1]))


@given(NUMBERS, NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5), st.integers(10, 1000))
def test_whatever_somebody_signs_is_an_error_or_cuts_a_file_sensibly(
    size: int, records: int, entries: list[tuple[int, int]], most: int
) -> None:
    content = b"afoindx1" + struct.pack("<QQ", size, records) + b"".join(struct.pack("<QQ", *each) for each in entries)
    try:
        index = parse_index(signed(content), "x")
    except DataError:
        return
    places = [*zip(index.offsets.tolist(), index.numbers.tolist(), strict=True), (size, records)]
    assert places[0] == (0, 0)
    assert all(b[0] - a[0] >= 16 * (b[1] - a[1]) > 0 for a, b in pairwise(places))
    parts = index.parts(max(most, size // 100))
    assert (parts[0].begin, parts[-1].end) == (0, size)


@pytest.mark.parametrize(
    ("size", "records", "entries", "words"),
    [
        (100, 2, [(16, 1)], "its first place is record 1 at offset 16"),
        (100, 0, [], "0 places of 0 records in 100 bytes"),
        (100, 1, [], "0 places of 1 records in 100 bytes"),
        (100, 9, [(0, 0)], "record 0 at offset 0 is followed by record 9 at 100"),
        (100, 3, [(0, 0), (60, 2), (40, 1)], "record 2 at offset 60 is followed by record 1 at 40"),
        (100, 2, [(0, 0), (100, 1)], "record 1 at offset 100 is followed by record 2 at 100"),
        (1 << 63, 2, [(0, 0)], "beyond all bounds"),
    ],
)
def test_what_is_wrong_is_said(size: int, records: int, entries: list[tuple[int, int]], words: str) -> None:
    content = b"afoindx1" + struct.pack("<QQ", size, records) + b"".join(struct.pack("<QQ", *each) for each in entries)
    with pytest.raises(DataError, match=words):
        parse_index(signed(content), "x")


def test_a_file_that_is_no_index_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / ".a.index").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match=f"more than {MOST_BYTES:,} bytes"):
        read_index(str(tmp_path / "a"), 10)


def write(path: Path, records: int, *, indexed: bool) -> list[int]:
    """Lengths of the records in the file."""
    with RecordWriter(str(path), indexed=indexed) as writer:
        writer.write_all(bytes(number % 3000) for number in range(records))
    return [16 + number % 3000 for number in range(records)]


def test_an_index_is_written_with_the_file_or_later(tmp_path: Path) -> None:
    lengths = write(tmp_path / "part-0", 3000, indexed=True)
    assert index_url(str(tmp_path / "part-0")) == str(tmp_path / ".part-0.index")
    index = read_index(str(tmp_path / "part-0"), sum(lengths))
    assert (index.size, index.records, len(index.offsets)) == (sum(lengths), 3000, 5)
    assert same(index, index_records(str(tmp_path / "part-0")))
    assert same(index, built(lengths, 1 << 20))
    assert [Path(each.url).name for each in find_splits([str(tmp_path / "*")])] == ["part-0"]


def test_a_file_that_is_written_again_takes_its_index_with_it(tmp_path: Path) -> None:
    write(tmp_path / "part-0", 10, indexed=True)
    assert storage.exists(str(tmp_path / ".part-0.index"))
    write(tmp_path / "part-0", 10, indexed=False)
    with pytest.raises(NotFound):
        read_index(str(tmp_path / "part-0"), 1)


def test_the_index_of_another_file_is_refused(tmp_path: Path) -> None:
    lengths = write(tmp_path / "part-0", 10, indexed=True)
    with pytest.raises(DataError, match=r"made for a file of 205 bytes, and .*part-0 has 206: write it with `afo data"):
        read_index(str(tmp_path / "part-0"), sum(lengths) + 1)


def test_only_whole_uncompressed_files_of_records_are_indexed(tmp_path: Path) -> None:
    path = tmp_path / "part-0"
    write(path, 10, indexed=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"part-0: record at offset 180 is cut off: 24 of its 25 bytes are there"):
        index_records(str(path))
    path.write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"record at offset 180 is cut off: 5 of the 12 bytes of its header"):
        index_records(str(path))
    path.write_bytes(b"PAR1" + whole)
    with pytest.raises(DataError, match=r"length of the record at offset 0 is damaged.*it is a Parquet file"):
        index_records(str(path))
    with RecordWriter(str(path), "gzip") as writer:
        writer.write(b"x")
    with pytest.raises(DataError, match="a file in gzip has no index"):
        index_records(str(path))
    with pytest.raises(DataError, match="a file in zlib has no index"):
        RecordWriter(str(path), "zlib", indexed=True)
    path.write_bytes(b"")
    write_index(str(path), index_records(str(path)))
    assert read_index(str(path), 0).parts(10) == ((0, 0),)
