"""Parquet files: what a column may hold, only wanted columns read, the same samples as from TFRecord files."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.data.example import decode
from afo.data.feature import Feature
from afo.data.io import parquet
from afo.data.io.tfrecord import frame, read_records
from afo.data.prepare.inspect import inspect_files
from afo.errors import DataError
from click_records import SCHEMA, as_parquet, expected_acks, splitmix64, write_files


def only_column(values: pa.Array, feature: Feature) -> parquet.Column:
    return parquet.column(pa.RecordBatch.from_arrays([values], [feature.name]), feature, "f.parquet")


CATEGORICAL = Feature(name="x", kind="categorical", default=7)
DENSE = Feature(name="x", kind="dense", default=0.5)
STRING = Feature(name="x", kind="string", default="?")
LIST = Feature(name="x", kind="categorical", max_length=3)


@pytest.mark.parametrize(
    ("values", "feature", "expected"),
    [
        (pa.array([1, None, 3], pa.int16()), CATEGORICAL, [[1], [7], [3]]),
        (pa.array([True, False, None]), CATEGORICAL, [[1], [0], [7]]),
        (pa.array([1, 2, 3], pa.uint64()), CATEGORICAL, [[1], [2], [3]]),
        (pa.array([2**63, 2**64 - 1], pa.uint64()), CATEGORICAL, [[-(2**63)], [-1]]),
        (pa.array([1.5, None, 3.0]), DENSE, [[1.5], [0.5], [3.0]]),
        (pa.array([1, 2, None], pa.int32()), DENSE, [[1.0], [2.0], [0.5]]),
        (pa.array(["a", None, ""]), STRING, [[b"a"], [b"?"], [b""]]),
        (pa.array(["a", None, "a"]).dictionary_encode(), STRING, [[b"a"], [b"?"], [b"a"]]),
        (pa.array([b"\xff", b"b", None]), STRING, [[b"\xff"], [b"b"], [b"?"]]),
        (pa.array([[1, 2], None, []]), LIST, [[1, 2, 0], [0, 0, 0], [0, 0, 0]]),
        (pa.array([[1, 2, 3, 4], [5], [None, 6]]), LIST, [[1, 2, 3], [5, 0, 0], [0, 6, 0]]),
        (pa.array([[1], [2], [3]], pa.list_(pa.int64(), 1)), LIST, [[1, 0, 0], [2, 0, 0], [3, 0, 0]]),
    ],
)
def test_what_a_column_may_hold(values: pa.Array, feature: Feature, expected: list[list[Any]]) -> None:
    found = only_column(values, feature)
    assert found.values.tolist() == expected
    assert found.fits is None or found.fits.all()


def test_decimals_are_real_numbers() -> None:
    values = pa.array([1, 2], pa.int32()).cast(pa.decimal128(12, 2))
    assert only_column(values, DENSE).values.tolist() == [[1.0], [2.0]]


def test_a_list_of_another_length_than_the_shape_does_not_fit() -> None:
    pair = Feature(name="x", kind="dense", shape=(2,))
    found = only_column(pa.array([[1.0, 2.0], [3.0], None, []]), pair)
    assert found.fits is not None
    assert found.fits.tolist() == [True, False, True, False]
    assert found.values[[0, 2]].tolist() == [[1.0, 2.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("values", "feature", "words"),
    [
        (pa.array(["a"]), CATEGORICAL, "`x` holds string values where the schema needs categorical"),
        (pa.array([1.0]), CATEGORICAL, "`x` holds double values"),
        (pa.array([{"a": 1}]), DENSE, "`x` holds struct"),
        (pa.array([[[1], [2]]]), CATEGORICAL, "`x` holds list<"),
    ],
)
def test_a_column_that_will_not_do_is_named(values: pa.Array, feature: Feature, words: str) -> None:
    with pytest.raises(DataError, match=rf"f\.parquet: column {words}"):
        only_column(values, feature)


LISTS = st.lists(st.one_of(st.none(), st.lists(st.integers(1, 2**62), max_size=5)), max_size=20)


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        ({"number"}, [70_000]),
        ({"number", "forty"}, [1 << 14, 1 << 14, 1 << 14, 1 << 14, 70_000 - (4 << 14)]),  # 25,575 rounded down
        ({"hundred"}, [10_485] * 6 + [7_090]),  # few rows are not rounded
        ({"text"}, [1 << 16, 70_000 - (1 << 16)]),
    ],
)
def test_rows_are_decoded_by_the_numbers_in_them(
    names: set[str], rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_BLOCK", 1 << 20)
    count = 70_000
    columns = {"number": pa.array(np.arange(count) % 9), "text": pa.array(["a"] * count)}
    for name, size in (("forty", 40), ("hundred", 100)):
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(count * size, np.float32)), size)
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with parquet.open_parquet(str(tmp_path / "a.parquet")) as file:
        assert [batch.num_rows for batch in parquet.batches(file, names)] == rows


@given(LISTS)
def test_any_lists_are_cut_off_and_padded(rows: list[list[int] | None]) -> None:
    found = only_column(pa.array(rows, pa.list_(pa.int64())), LIST)
    assert found.values.tolist() == [([*(row or []), 0, 0, 0])[:3] for row in rows]


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(DataError, match=r"a\.parquet: it cannot be read as Parquet: .*write the file again"):
        list(parquet.rows(str(tmp_path / "a.parquet")))


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (frame(b"x" * 50), "it looks like TFRecord: say `data.format: tfrecord`"),
        (gzip.compress(frame(b"x" * 50)), "it looks like TFRecord: say `data.format: tfrecord`"),
        (b"age,income\n39,0\n", "it looks like text: `afo data convert` writes TFRecord files of CSV"),
        (b"\x1f\x8b is not enough", "write the file again"),
        (b"\x00\xff" * 9, "write the file again"),
    ],
    ids=["records", "gzip", "text", "damaged", "other"],
)
def test_what_a_file_is_that_is_no_parquet(tmp_path: Path, content: bytes, hint: str) -> None:
    """The words of Arrow end without a stop before our own."""
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=rf"a: it cannot be read as Parquet: .*[^.]; {re.escape(hint)}$"):
        parquet.facts(str(tmp_path / "a"))


def test_rows_are_as_records(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 30)
    as_parquet(tmp_path / "part-00.tfrecord", tmp_path / "a.parquet")
    rows = list(parquet.rows(str(tmp_path / "a.parquet")))
    records = [decode(record) for record in read_records(str(tmp_path / "part-00.tfrecord"))]
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert {name: list(values) for name, values in row.items()} == {
            name: list(values) for name, values in record.items()
        }
    SCHEMA.validate_against(rows, "a.parquet")


def test_columns_that_can_be_no_features_are_told(tmp_path: Path) -> None:
    columns = {"user": pa.array([2**63 + 5], pa.uint64()), "when": pa.array([0], pa.timestamp("ms")),
               "deep": pa.array([[[1], [2]]])}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    report = inspect_files([str(tmp_path / "a.parquet")])
    assert [each.name for each in report.features] == ["user"]
    assert report.unread.startswith("columns that can be no features: when (timestamp[ms]), deep (list<")


tf = pytest.importorskip("tensorflow")

from afo.data.io.bad_records import BadRecords  # noqa: E402
from afo.data.pipeline.batch_fragments import as_tensors  # noqa: E402
from afo.data.pipeline.split_reader import Lease, SplitReader  # noqa: E402
from afo.job import Data, Shuffle  # noqa: E402
from afo.models.parser import parser_of  # noqa: E402

DATA = Data(train=("*.parquet",), sample_id="sample_id", shuffle=Shuffle(buffer=50, seed=3))


def blocks(
    path: Path, data: Data = DATA, size: int = 16, skip: int = 0, bad: BadRecords | None = None
) -> Iterator[Any]:
    reader = SplitReader(Lease(4, 0, str(path), skip), path, data, size, SCHEMA, bad)
    return iter(reader.next_block, None)


def identities(path: Path, data: Data = DATA, **options: Any) -> list[int]:
    parser = parser_of(SCHEMA, data)
    return [each % 2**64 for block in blocks(path, data, **options) for each in parser(block).identity.numpy().tolist()]


def test_the_first_rows_of_a_file_take_no_others_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"user": range(50_000)}), tmp_path / "a.parquet")
    taken: list[int] = []
    whole = parquet._row_values
    monkeypatch.setattr(parquet, "_row_values", lambda array, *more: taken.append(len(array)) or whole(array, *more))
    found = parquet.rows(str(tmp_path / "a.parquet"))
    assert [next(found)["user"].tolist() for _ in range(3)] == [[0], [1], [2]]
    found.close()
    assert sum(taken) < 1000
    assert sum(1 for _ in parquet.rows(str(tmp_path / "a.parquet"))) == 50_000


@pytest.mark.tensorflow
def test_samples_are_the_same_as_from_records(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 200)
    source, target = tmp_path / "part-00.tfrecord", tmp_path / "a.parquet"
    as_parquet(source, target)
    plain = msgspec.structs.replace(DATA, shuffle=Shuffle(buffer=0))
    [block] = blocks(target, plain, size=300)
    columns = parser_of(SCHEMA, plain)(block)
    records = parser_of(SCHEMA, Data(train=("*.tfrecord",), sample_id="sample_id"))
    expected = records(tf.constant(list(read_records(str(source)))))
    assert columns.features.keys() == expected.features.keys()
    tf.nest.map_structure(lambda left, right: np.testing.assert_array_equal(left, right), columns, expected)
    xor = int(np.bitwise_xor.reduce(columns.identity.numpy())) % 2**64
    assert (200, xor) == expected_acks(1, 200)[0]


@pytest.mark.tensorflow
def test_the_order_is_repeatable_mixed_and_can_be_gone_on_with(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 500)
    path = tmp_path / "a.parquet"
    as_parquet(tmp_path / "part-00.tfrecord", path)
    everything = identities(path)
    in_file = [splitmix64(number) for number in range(500)]
    assert sorted(everything) == sorted(in_file)
    assert everything != in_file
    for skip, size in ((0, 7), (1, 16), (333, 20), (499, 16), (500, 16)):
        assert identities(path, size=size, skip=skip) == everything[skip:]
    other = msgspec.structs.replace(DATA, shuffle=Shuffle(buffer=50, seed=4))
    assert identities(path, other) != everything


@pytest.mark.tensorflow
def test_without_a_sample_id_every_row_of_every_file_is_another(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 100)
    data = msgspec.structs.replace(DATA, sample_id=None)
    found: list[int] = []
    for name in ("a.parquet", "b.parquet"):
        as_parquet(tmp_path / "part-00.tfrecord", tmp_path / name)
        found += identities(tmp_path / name, data)
        assert identities(tmp_path / name, data) == found[-100:]
    assert len(set(found)) == 200


@pytest.mark.tensorflow
def test_features_alone_need_neither_label_nor_weight(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [30.0, 40.0], "sample_id": [1, 2]}), tmp_path / "a.parquet")
    data = msgspec.structs.replace(DATA, label=("click", "buy"), weight="w", shuffle=Shuffle(buffer=0))
    lease = Lease(0, 0, str(tmp_path / "a.parquet"))
    with pytest.raises(DataError, match=r"a\.parquet: there is no column `click`; there are: age, sample_id"):
        SplitReader(lease, tmp_path / "a.parquet", data, 9, SCHEMA).next_block()
    block = SplitReader(lease, tmp_path / "a.parquet", data, 9, SCHEMA, labelled=False).next_block()
    features, keys = parser_of(SCHEMA, data).keyed_inputs(as_tensors(block))
    assert features["age"].numpy().tolist() == [[30.0], [40.0]]
    assert keys.numpy().tolist() == [1, 2]


@pytest.mark.tensorflow
def test_only_the_wanted_columns_are_read(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 100)
    random = np.random.default_rng(1)
    unread = {f"unread_{number}": pa.array(random.bytes(100 * 500)[i * 500 : i * 500 + 500] for i in range(100))
              for number in range(40)}  # fmt: skip
    when = pa.array([0] * 100, pa.timestamp("s"))
    wide, narrow = tmp_path / "wide.parquet", tmp_path / "narrow.parquet"
    as_parquet(tmp_path / "part-00.tfrecord", wide, when=when, **unread)
    as_parquet(tmp_path / "part-00.tfrecord", narrow)
    assert wide.stat().st_size > 40 * 100 * 500
    assert bytes_read(wide) < wide.stat().st_size / 10
    assert len(identities(wide)) == 100


def bytes_read(path: Path) -> int:
    """Bytes that reading the schema's columns takes out of a file."""
    known = {*SCHEMA.names, "label", "sample_id"}
    count = 0

    with path.open("rb") as file:
        plain_read = file.read

        class Counted:
            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

            def read(self, size: int = -1) -> bytes:
                nonlocal count
                content = plain_read(size)
                count += len(content)
                return content

        for _ in parquet.batches(pq.ParquetFile(pa.PythonFile(Counted(), mode="r")), known):
            pass
    return count


@pytest.mark.tensorflow
def test_rows_that_do_not_fit_are_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path, 1, 100)
    path = tmp_path / "a.parquet"
    as_parquet(tmp_path / "part-00.tfrecord", path)
    table = pq.read_table(path).to_pydict()
    table["label"][13] = None
    table["liked"][70] = [1, 2, 3]
    table["sample_id"][0] = None
    pq.write_table(pa.table(table), path)
    with pytest.raises(DataError, match=rf"{path}: row 0: it lacks a value of `sample_id`; .*max_bad_records"):
        list(blocks(path))
    data = msgspec.structs.replace(DATA, max_bad_records=0.05)
    bad = BadRecords(0.05)
    found = identities(path, data, bad=bad)
    assert sorted(found) == sorted(splitmix64(number) for number in range(100) if number not in (0, 13, 70))
    tally = bad.pop(Lease(4, 0, str(path)))
    assert (tally.bad, tally.unread) == (3, 3)
    told = capsys.readouterr().err
    assert "row 70: column `liked` holds 3 values where the schema's shape needs 2" in told
    assert "row 13: it lacks a value of `label`" in told


@pytest.mark.tensorflow
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=6), st.integers(0, 100), st.integers(1, 30), st.integers(0, 60))
def test_rebatching_keeps_every_row_in_order(sizes: list[int], skip: int, size: int, buffer: int) -> None:
    from afo.data.io.columns import Columns, rebatch, shuffle_rows

    total = sum(sizes)
    rows = np.arange(total)
    cuts = np.split(rows, np.cumsum(sizes)[:-1]) if sizes else []
    given_blocks = [Columns({"x": each}, each, each, each, each) for each in cuts]
    out = list(rebatch(given_blocks, skip, size))
    assert [row for block in out for row in block.key.tolist()] == rows[skip:].tolist()
    assert all(len(block.key) == size for block in out[:-1])
    shuffled = [row for block in shuffle_rows(given_blocks, buffer, 1) for row in block.weight.tolist()]
    assert sorted(shuffled) == rows.tolist()


def test_a_column_that_is_there_twice_is_refused_where_it_is_read(tmp_path: Path) -> None:
    column = pa.array([1, 0])
    url = str(tmp_path / "a.parquet")
    pq.write_table(pa.table([column, column, column], names=["label", "a", "a"]), url)
    with pytest.raises(DataError, match=r"a.parquet: .* column 'a' is there more than once"):
        list(parquet.rows(url))
    assert [list(each) for each in parquet.rows(url, lambda name: name == "label")] == [["a", "label"]] * 2
    with parquet.open_parquet(url) as file:
        assert sum(batch.num_rows for batch in parquet.batches(file, {"label"})) == 2
