"""TFRecord files: what is written is read back, and damage of any kind is a DataError that says where."""

import gzip
import io
import re
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.data.io.tfrecord import (
    MAX_RECORD,
    RecordWriter,
    compression_of,
    count_records,
    frame,
    masked_crc,
    read_records,
    read_stream,
)
from afo.errors import AfoError, DataError

COMPRESSIONS = ("none", "gzip", "zlib")
PACK = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}
records_lists = st.lists(st.binary(max_size=300), max_size=8)


def written(path: Path, records: list[bytes], compression: str = "none") -> str:
    with RecordWriter(str(path), compression) as writer:
        writer.write_all(records)
    return str(path)


def read_until_error(data: bytes, compression: str = "auto") -> tuple[list[bytes], str | None]:
    read: list[bytes] = []
    try:
        for record in read_stream(io.BytesIO(data), "f", compression):
            read.append(record)
    except DataError as error:
        return read, str(error)
    return read, None


@given(records=records_lists, compression=st.sampled_from(COMPRESSIONS))
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], compression: str
) -> None:
    path = tmp_path_factory.mktemp("tfrecord") / "a"
    with RecordWriter(str(path), compression) as writer:
        writer.write_all(records[:3])
        for record in records[3:]:
            writer.write(record)
    assert writer.count == len(records)
    assert list(read_records(str(path))) == records
    assert list(read_records(str(path), compression)) == records


@given(
    records=st.lists(st.binary(max_size=60), min_size=1, max_size=4),
    compression=st.sampled_from(COMPRESSIONS),
    data=st.data(),
)
def test_damage_is_a_data_error_or_harmless(records: list[bytes], compression: str, data: st.DataObject) -> None:
    file = bytearray(PACK[compression](b"".join(map(frame, records))))
    place = data.draw(st.integers(0, len(file) - 1))
    if data.draw(st.booleans()):
        del file[place:]
    else:
        file[place] ^= data.draw(st.integers(1, 255))
    read, error = read_until_error(file)
    if error is None:
        # Cut between two records, or a byte of gzip's header that nothing depends on.
        assert len(file) == place or compression == "gzip"
    else:
        assert error.startswith("f: ")
    assert read == records[: len(read)], "a damaged record must never be delivered"


@given(st.binary(max_size=200), st.sampled_from(("auto", "none", "gzip", "zlib")))
def test_arbitrary_bytes(data: bytes, compression: str) -> None:
    _, error = read_until_error(data, compression)
    assert error is None or error.startswith("f: ")


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_offsets_of_damage(compression: str) -> None:
    frames = [frame(b"a" * 10), frame(b"b" * 20), frame(b"c" * 30)]
    whole = b"".join(frames)
    second, third = len(frames[0]), len(frames[0]) + len(frames[1])

    def error(data: bytes) -> str:
        with pytest.raises(DataError) as caught:
            list(read_stream(io.BytesIO(PACK[compression](data)), "f", compression))
        return str(caught.value)

    def flipped(place: int) -> bytes:
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]

    assert f"f: length of the record at offset {second} is damaged" in error(flipped(second))
    assert f"f: length of the record at offset {second} is damaged" in error(flipped(second + 9))
    assert f"f: data of the record at offset {third} is damaged" in error(flipped(third + 12))
    assert f"f: data of the record at offset {third} is damaged" in error(flipped(len(whole) - 1))
    assert f"f: record at offset {third} is cut off: 45 of its 46 bytes" in error(whole[:-1])
    assert f"f: record at offset {third} is cut off: 12 of its 46 bytes" in error(whole[: third + 12])
    assert f"f: record at offset {third} is cut off: 5 of the 12 bytes of its header" in error(whole[: third + 5])


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"age,income\n39,0\n", "looks like text: `afo data convert` writes TFRecord files of CSV"),
        ("\ufeffid,größe\n39,0\n".encode(), "looks like text: `afo data convert` writes TFRecord files of CSV"),
        ("großer Fluß".encode(), "looks like text: `afo data convert` writes TFRecord files of CSV"),
        (b"PAR1\x15\x04\x15\x80\x01\x15\x82\x01", "is a Parquet file: say `data.format: parquet`"),
        (b"\x00\xff" * 9, "is it a TFRecord file?"),
    ],
)
def test_a_file_that_is_no_tfrecord(content: bytes, hint: str) -> None:
    with pytest.raises(DataError, match=rf"f: length of the record at offset 0 .*{re.escape(hint)}"):
        list(read_stream(io.BytesIO(content), "f"))


def test_a_length_beyond_any_record_claims_no_memory() -> None:
    for size in (MAX_RECORD, MAX_RECORD + 1, (1 << 64) - 1):
        length = struct.pack("<Q", size)
        data = length + struct.pack("<I", masked_crc(length)) + b"x" * 50
        with pytest.raises(DataError, match=r"offset 0 (is cut off|claims)"):
            list(read_stream(io.BytesIO(data), "f"))


@pytest.mark.parametrize("size", [0x8B1F, 0x9C78])
def test_a_plain_file_whose_first_length_looks_like_a_compressed_file(tmp_path: Path, size: int) -> None:
    url = written(tmp_path / "a", [b"x" * size])
    assert compression_of(url) == "none"
    assert count_records(url) == 1


def test_gzip_files_joined_to_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(frame(b"one")) + gzip.compress(b"") + gzip.compress(frame(b"two")))
    assert list(read_records(str(path))) == [b"one", b"two"]


def test_large_records_of_high_compression(tmp_path: Path) -> None:
    records = [bytes(3_000_000), b"end"]
    assert list(read_records(written(tmp_path / "a", records, "gzip"))) == records


def test_an_empty_file_holds_no_record(tmp_path: Path) -> None:
    for compression in COMPRESSIONS:
        assert count_records(written(tmp_path / compression, [], compression)) == 0


def test_an_error_while_writing_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> None:
        with RecordWriter(str(tmp_path / "a"), "gzip") as writer:
            writer.write(b"x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AfoError, match="nothing-here"):
        count_records(str(tmp_path / "nothing-here"))


@pytest.mark.tensorflow
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tensorflow_reads_ours_and_we_read_its(tmp_path: Path, compression: str) -> None:
    import tensorflow as tf

    kind = "" if compression == "none" else compression.upper()
    records = [b"", b"one", bytes(range(256)) * 300]
    ours = written(tmp_path / "ours", records, compression)
    assert [each.numpy() for each in tf.data.TFRecordDataset(ours, compression_type=kind)] == records
    with tf.io.TFRecordWriter(str(tmp_path / "its"), options=kind) as writer:
        for record in records:
            writer.write(record)
    assert compression_of(str(tmp_path / "its")) == compression
    assert list(read_records(str(tmp_path / "its"))) == records
