"""Going on in a split from the index's place before the first record that is needed."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.data.io.record_index import IndexBuilder, RecordIndex, index_url, write_index  # noqa: E402
from afo.data.io.tfrecord import frame, read_records  # noqa: E402
from afo.data.pipeline.split_reader import Lease, from_nearer_by  # noqa: E402
from afo.job import Data, Shuffle  # noqa: E402
from afo.storage.url import ByteRange  # noqa: E402

pytestmark = pytest.mark.tensorflow

AS_WRITTEN = Data(train=("x",), shuffle=Shuffle(buffer=0))


def indexed(path: Path, records: list[bytes], spacing: int) -> RecordIndex:
    path.write_bytes(b"".join(frame(record) for record in records))
    builder = IndexBuilder(spacing)
    for record in records:
        builder.add(len(record) + 16)
    write_index(str(path), builder.build())
    return builder.build()


def needed(lease: Lease) -> list[bytes]:
    return list(read_records(lease.url, part=lease.part))[lease.skip :]


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=40), st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_records_come_from_nearer_by(tmp_path: Path, records: list[bytes], data: st.DataObject) -> None:
    spacing = data.draw(st.integers(1, 500))
    index = indexed(tmp_path / "a", records, spacing)
    for part in (None, *index.parts(data.draw(st.integers(1, 1000)))):
        of_part = list(read_records(str(tmp_path / "a"), part=part))
        lease = Lease(0, 0, str(tmp_path / "a"), data.draw(st.integers(0, len(of_part))), part)
        moved = from_nearer_by(lease, AS_WRITTEN)
        assert needed(moved) == of_part[lease.skip :]
        assert moved.skip * 16 < spacing + 76, "no more is read than lies between two places"
        assert not lease.skip or moved.part is not None


def test_a_split_is_read_from_its_beginning_where_that_counts(tmp_path: Path) -> None:
    records = [b"%d" % number for number in range(100)]
    index = indexed(tmp_path / "a", records, 64)
    lease = Lease(0, 0, str(tmp_path / "a"), 50, ByteRange(0, index.size))
    assert from_nearer_by(lease, AS_WRITTEN).skip < 5
    assert from_nearer_by(lease._replace(skip=0), AS_WRITTEN) == lease._replace(skip=0)
    for data in (
        Data(train=("x",), shuffle=Shuffle(buffer=2)),
        Data(train=("x",), shuffle=Shuffle(buffer=0), max_bad_records=0.1),
        Data(train=("x",), shuffle=Shuffle(buffer=0), format="parquet"),
    ):
        assert from_nearer_by(lease, data) == lease


def test_an_index_that_does_not_fit_is_of_no_use(tmp_path: Path) -> None:
    records = [b"%d" % number for number in range(100)]
    index = indexed(tmp_path / "a", records, 64)
    between = Lease(0, 0, str(tmp_path / "a"), 50, ByteRange(1, index.size))
    assert from_nearer_by(between, AS_WRITTEN) == between
    lease = between._replace(part=None)
    whole = Path(index_url(lease.url)).read_bytes()
    for damaged in (whole[:-1], indexed(tmp_path / "b", records[:-1], 64).encode(), None):
        if damaged is None:
            Path(index_url(lease.url)).unlink()
        else:
            Path(index_url(lease.url)).write_bytes(damaged)
        assert from_nearer_by(lease, AS_WRITTEN) == lease
