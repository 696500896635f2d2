"""Blocks of records by our operation and by TensorFlow's reader: the same records, the same words for damage."""

import gzip
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.data.io.compression import Compression  # noqa: E402
from afo.data.io.record_blocks import Order, RecordSource, record_blocks  # noqa: E402
from afo.data.io.tfrecord import frame, read_records  # noqa: E402
from afo.errors import DataError  # noqa: E402
from afo.job import Data  # noqa: E402
from afo.ops import library  # noqa: E402

pytestmark = pytest.mark.tensorflow

DATA = Data(train=("x",))
AS_WRITTEN = Order(seed=1, buffer=1, skip=0, block=7)


@pytest.fixture(params=["operation", "TensorFlow"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads."""
    if request.param == "TensorFlow":
        monkeypatch.setattr(library, "load_if_present", lambda: None)


def records_of(
    path: Path, order: Order, refuse: Callable[[str], None] | None = None, compression: Compression = "auto"
) -> list[bytes]:
    """All of a file, in blocks that are full but for the last."""
    data = Data(train=("x",), compression=compression)
    blocks = [block.numpy().tolist() for block in record_blocks(RecordSource(str(path), data, refuse), order)]
    assert all(len(block) == order.block for block in blocks[:-1])
    return [record for block in blocks for record in block]


def written(path: Path, records: list[bytes]) -> Path:
    """A file of these records."""
    path.write_bytes(b"".join(frame(record) for record in records))
    return path


@given(
    st.lists(st.binary(max_size=60), max_size=50), st.integers(1, 60), st.integers(0, 60), st.integers(1, 20),
    st.integers(0, (1 << 31) - 1),
)  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_order_is_of_all_records_whatever_the_blocks(
    tmp_path: Path, records: list[bytes], buffer: int, skip: int, block: int, seed: int
) -> None:
    path = written(tmp_path / "a", records)
    whole = records_of(path, Order(seed, buffer, 0, 50))
    assert sorted(whole) == sorted(records)
    assert records_of(path, Order(seed, buffer, skip, block)) == whole[skip:]
    assert records_of(path, AS_WRITTEN) == records


def test_records_are_mixed_within_the_buffer(tmp_path: Path, reader: None) -> None:
    records = [b"%d" % number for number in range(1000)]
    path = written(tmp_path / "a", records)
    mixed = records_of(path, Order(3, 100, 0, 64))
    assert mixed != records_of(path, Order(4, 100, 0, 64))
    assert sorted(mixed) == sorted(records)
    # None comes before the buffer could hold it, and where each lands is spread.
    assert all(int(record) < place + 100 for place, record in enumerate(mixed))
    far = [abs(int(record) - place) for place, record in enumerate(mixed)]
    assert 20 < sum(far) / len(far) < 200


def test_a_record_longer_than_what_is_read_at_once(tmp_path: Path, reader: None) -> None:
    records = [b"a" * 3_000_000, b"", b"b" * (1 << 20), b"c"]
    assert records_of(written(tmp_path / "a", records), AS_WRITTEN) == records


def test_a_compressed_file(tmp_path: Path, reader: None) -> None:
    path = written(tmp_path / "a", [b"one", b"two"])
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert records_of(path, AS_WRITTEN) == [b"one", b"two"]


@given(
    st.lists(st.binary(max_size=3000), max_size=40), st.sampled_from(["gzip", "zlib"]), st.integers(0, 9),
    st.lists(st.floats(0, 1), max_size=3), st.integers(1, 60), st.integers(0, 60),
)  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_compressed_file_is_read_as_the_plain_one(
    tmp_path: Path,
    records: list[bytes],
    kind: Literal["gzip", "zlib"],
    level: int,
    cuts: list[float],
    buffer: int,
    skip: int,
) -> None:
    path = written(tmp_path / "a", records)
    order = Order(5, buffer, skip, 7)
    plain = records_of(path, order)
    content = path.read_bytes()
    compress = gzip.compress if kind == "gzip" else zlib.compress
    path.write_bytes(compress(content, level))
    # An explicit format, since zlib is told by its first bytes at most levels only.
    theirs = list(tf.data.TFRecordDataset(str(path), kind.upper()).as_numpy_iterator())
    assert records_of(path, AS_WRITTEN, compression=kind) == theirs == records
    places = [0, *sorted(round(cut * len(content)) for cut in cuts), len(content)]
    path.write_bytes(b"".join(compress(content[a:b], level) for a, b in pairwise(places)))
    assert records_of(path, order, compression=kind) == plain


def test_compressed_data_that_are_cut_off_or_damaged(tmp_path: Path) -> None:
    # TensorFlow reads on without the last bytes, which are the sum over all.
    path = written(tmp_path / "a", [b"one" * 100, b"two" * 100])
    content = gzip.compress(path.read_bytes())
    path.write_bytes(content[:-5])
    with pytest.raises(DataError, match=rf"a: gzip data is cut off at byte {len(content) - 5} of the file"):
        records_of(path, AS_WRITTEN)
    path.write_bytes(content[:-6] + bytes([content[-6] ^ 1]) + content[-5:])
    with pytest.raises(DataError, match=r"a: gzip data is damaged near byte \d+ of the file"):
        records_of(path, AS_WRITTEN)


def test_a_reader_that_is_left_alone_stops(tmp_path: Path) -> None:
    path = written(tmp_path / "a", [b"%d" % number for number in range(1000)])
    blocks = record_blocks(RecordSource(str(path), DATA, None), AS_WRITTEN)
    assert next(blocks).shape[0] == 7
    assert threads_called("afo_records") == 1
    del blocks
    assert threads_called("afo_records") == 0


def threads_called(name: str) -> int:
    """Threads of this process."""
    return sum(each.read_text().startswith(name) for each in Path("/proc/self/task").glob("*/comm"))


def test_every_cut_is_told_as_our_slow_reader_tells_it(tmp_path: Path) -> None:
    # TensorFlow takes a file that ends within a header for one that ends before it.
    path = written(tmp_path / "a", [b"first", b"second"])
    content = path.read_bytes()
    ends = {0, len(frame(b"first"))}
    for size in set(range(len(content))) - ends:
        path.write_bytes(content[:size])
        with pytest.raises(DataError) as expected:
            list(read_records(str(path)))
        with pytest.raises(DataError) as found:
            records_of(path, AS_WRITTEN)
        assert str(found.value) == str(expected.value)


def test_every_flipped_bit_is_told_or_left_out(tmp_path: Path, reader: None) -> None:
    path = written(tmp_path / "a", [b"one", b"other", b"last"])
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        words: list[str] = []
        assert outcome(lambda path=path, words=words: records_of(path, AS_WRITTEN, words.append)) == slowly(path, words)
        with pytest.raises(DataError) as found:
            records_of(path, AS_WRITTEN)
        assert str(found.value) in (*words, str(slowly(path, [])))


def slowly(path: Path, words: list[str]) -> list[bytes] | str:
    """What our slow reader makes of a file; what it leaves out must be what `words` tells, if they do."""
    skipped: list[DataError] = []
    found = outcome(lambda: list(read_records(str(path), skipped=skipped)))
    assert words in ([], [str(each) for each in skipped])
    return found


def outcome(read: Callable[[], list[bytes]]) -> list[bytes] | str:
    """Records, or why there are none."""
    try:
        return read()
    except DataError as error:
        return str(error)


def test_damage_changes_no_order(tmp_path: Path, reader: None) -> None:
    records = [b"%d" % number for number in range(100)]
    path = written(tmp_path / "a", records)
    content = bytearray(path.read_bytes())
    content[len(b"".join(frame(record) for record in records[:57])) + 12] ^= 1
    path.write_bytes(content)
    words: list[str] = []
    whole = records_of(path, Order(5, 30, 0, 8), words.append)
    assert sorted(whole) == sorted({*records} - {b"57"})
    assert len(words) == 1
    assert records_of(path, Order(5, 30, 41, 9), words.append) == whole[41:]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a", [b"one"])
    blocks = record_blocks(RecordSource(str(path), DATA, None), AS_WRITTEN)
    path.unlink()
    with pytest.raises(DataError, match=r"a: cannot be opened: No such file"):
        next(blocks)
