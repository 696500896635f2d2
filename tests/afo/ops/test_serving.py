"""Tables of served models as operations: any file and any graph are answered or refused."""

import os
import struct
import threading
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.errors import DataError  # noqa: E402
from afo.job import ROW_TYPES, RowType  # noqa: E402
from afo.ops.library import load  # noqa: E402
from afo.tables.merged_rows import MergedRows  # noqa: E402
from afo.tables.saved_tables import Rows  # noqa: E402
from afo.trainable.served.frozen_table import FrozenTable  # noqa: E402
from afo.trainable.served.native_table import NativeTable  # noqa: E402
from afo.trainable.served.rows_file import ChangedRows, Parent, write_rows  # noqa: E402
from afo.trainable.served.rows_header import MOST_HEADER_BYTES, check_table, read_header, rows_at  # noqa: E402
from padded_table import padded  # noqa: E402

pytestmark = pytest.mark.tensorflow

KEYS = st.sampled_from([-(2**63), -5, -1, 0, 1, 2, 7, 2**40, 2**63 - 1])


@pytest.fixture(scope="module")
def ops() -> Any:
    return load()


def some(count: int, dim: int, seed: int = 0) -> Rows:
    random = np.random.default_rng(seed)
    keys = np.unique(random.integers(-(2**63), 2**63 - 1, count))
    return Rows(keys, random.normal(size=(len(keys), dim)).astype(np.float32))


def write_file(path: Path, rows: Rows, absent: float, kept: RowType, *, has_index: bool = True) -> None:
    with path.open("wb") as file:
        write_rows(file, rows, absent, kept, has_index=has_index)


def write_changes(path: Path, rows: Rows, removed: list[int], parent: Parent, kept: RowType = "float32") -> None:
    merged = MergedRows(rows.dim, path.parent)
    records = np.zeros(len(rows.keys) + len(removed), merged.record)
    records["key"] = np.concatenate([rows.keys, np.array(removed, np.int64)])
    records["order"] = np.repeat([1, 0], [len(rows.keys), len(removed)])
    records["weights"][: len(rows.keys)] = rows.weights
    merged.add_run([np.sort(records, order="key")])
    with path.open("wb") as file:
        write_rows(file, ChangedRows(merged, parent), 0.0, kept)


def write_without_blocks(path: Path, rows: Rows, absent: float) -> None:
    """As exports of earlier versions have it (afo/core/served_table.h), of float32."""
    header = b"AFOROWS1" + struct.pack("<IIQf", 0, rows.dim, len(rows.keys), absent)
    body = b"".join(key.tobytes() + row.tobytes() for key, row in zip(rows.keys, rows.weights, strict=True))
    sums = [struct.pack("<I", google_crc32c.value(part)) for part in (header, body)]
    path.write_bytes(header + sums[0] + body + sums[1])


def mapped_bytes(path: Path) -> int:
    """Of this file, in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if line.endswith(f" {path}")]
    return sum(int(end, 16) - int(begin, 16) for begin, end in ranges)


@pytest.mark.parametrize("kept", ROW_TYPES)
@given(held=st.sets(KEYS), asked=st.lists(KEYS), dim=st.integers(1, 9), absent=st.sampled_from([0.0, 0.1]))
@settings(deadline=None, max_examples=30)
def test_a_native_table_answers_as_a_frozen_one_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, kept: RowType, held: set[int], asked: list[int], dim: int, absent: float
) -> None:
    random = np.random.default_rng(dim)
    rows = Rows(np.array(sorted(held), np.int64), random.normal(size=(len(held), dim)).astype(np.float32))
    native = NativeTable(rows, absent, kept, tmp_path_factory.mktemp("tables"))
    keys = tf.constant(asked, tf.int64)
    np.testing.assert_array_equal(native.lookup(keys), FrozenTable(rows, absent, kept).lookup(keys))


def test_many_keys_of_any_shape_and_other_rows_later(tmp_path: Path) -> None:
    rows = some(50_000, 3)
    table = NativeTable(rows, 0.5, "float32", tmp_path)
    found = table.lookup(tf.reshape(tf.constant(rows.keys[:40_000]), [8, 5000]))
    assert found.shape == (8, 5000, 3)
    np.testing.assert_array_equal(tf.reshape(found, [-1, 3]), rows.weights[:40_000])
    other = some(100, 3, seed=1)
    table.load(other)
    np.testing.assert_array_equal(table.lookup(other.keys), other.weights)
    np.testing.assert_array_equal(table.lookup(rows.keys[:2]), np.full((2, 3), 0.5, np.float32))


def test_a_table_is_looked_up_while_another_takes_its_place(ops: Any, tmp_path: Path) -> None:
    keys = np.arange(5000)
    for value in (1.0, 2.0):
        write_file(tmp_path / f"{value}", Rows(keys, np.full((5000, 4), value, np.float32)), 0.0, "float32")
    handle = ops.afo_served_table(shared_name="test/replaced")
    ops.afo_load_served_table(handle, f"{tmp_path}/1.0")
    over = threading.Event()
    seen: list[set[float]] = []

    def look_up() -> None:
        while not over.is_set():
            seen.append(set(np.unique(ops.afo_lookup_served(handle, keys, dim=4).numpy()).tolist()))

    threads = [threading.Thread(target=look_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(50):
        ops.afo_load_served_table(handle, f"{tmp_path}/{(2.0, 1.0)[turn % 2]}")
    over.set()
    for thread in threads:
        thread.join()
    assert len(seen) > 3
    assert all(values in ({1.0}, {2.0}) for values in seen), "each lookup is of one table"


def test_what_a_graph_may_not_ask(ops: Any, tmp_path: Path) -> None:
    handle = ops.afo_served_table(shared_name="test/refused")
    with pytest.raises(tf.errors.NotFoundError):
        ops.afo_lookup_served(handle, [1], dim=2)
    with pytest.raises(tf.errors.NotFoundError):
        ops.afo_load_served_table(handle, f"{tmp_path}/none")
    with pytest.raises(tf.errors.InvalidArgumentError, match="one string"):
        ops.afo_load_served_table(handle, ["a", "b"])
    write_file(tmp_path / "two", some(3, 2), 0.0, "float32")
    ops.afo_load_served_table(handle, f"{tmp_path}/two")
    with pytest.raises(tf.errors.DataLossError, match="rows of 2 weights, and the model wants 3"):
        ops.afo_lookup_served(handle, [1], dim=3)
    assert ops.afo_lookup_served(handle, tf.zeros([0, 4], tf.int64), dim=2).shape == (0, 4, 2)


@pytest.mark.parametrize("samples", [0, 1, 700])
def test_tables_side_by_side_answer_as_each_by_itself(ops: Any, tmp_path: Path, samples: int) -> None:
    random, widths = np.random.default_rng(samples), (1, 0, 3)
    tables = [NativeTable(some(40, 5, seed), 0.5, "float32", tmp_path) for seed in range(len(widths))]
    known = [some(40, 5, seed).keys for seed in range(len(widths))]
    keys = [random.choice(np.append(own, 4), (samples, width)) for own, width in zip(known, widths, strict=True)]
    alone = [table.lookup(own) for table, own in zip(tables, keys, strict=True)]
    np.testing.assert_array_equal(NativeTable.lookup_all(tables, keys), np.concatenate(alone, axis=1))


def test_keys_of_tables_side_by_side_are_of_the_same_samples(ops: Any, tmp_path: Path) -> None:
    tables = [NativeTable(some(3, 2, seed), 0.0, "float32", tmp_path) for seed in range(2)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="n for all alike"):
        NativeTable.lookup_all(tables, [[[1]], [[1], [2]]])
    with pytest.raises(tf.errors.DataLossError, match="rows of 2 weights, and the model wants 3"):
        ops.afo_lookup_served_tables([tables[0].resource.resource_handle], [[[1]]], dim=3)


def cut_or_changed(content: bytes, places: range) -> Any:
    for place in places:
        yield content[:place]
        yield content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


@pytest.mark.parametrize(("in_file", "has_blocks"), [(False, True), (True, True), (False, False), (True, False)])
def test_a_file_that_is_cut_off_or_changed_is_refused_and_what_was_there_stays(
    ops: Any, tmp_path: Path, in_file: bool, has_blocks: bool
) -> None:
    rows = some(10, 6)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    if has_blocks:
        write_file(whole, rows, 0.0, "int8", has_index=not in_file)
    else:
        write_without_blocks(whole, rows, 0.0)
    handle = ops.afo_served_table(shared_name="test/broken")
    ops.afo_load_served_table(handle, str(whole), in_file=in_file)
    before = ops.afo_lookup_served(handle, rows.keys, dim=6).numpy()
    content = whole.read_bytes()
    for damaged in cut_or_changed(content, range(len(content))):
        broken.write_bytes(damaged)
        with pytest.raises(tf.errors.DataLossError, match="broken is no table of a served model: it"):
            ops.afo_load_served_table(handle, str(broken), in_file=in_file)
    np.testing.assert_array_equal(ops.afo_lookup_served(handle, rows.keys, dim=6), before)


@pytest.mark.parametrize("in_file", [False, True])
def test_files_of_earlier_exports_answer_as_new_ones_do(ops: Any, tmp_path: Path, in_file: bool) -> None:
    rows = some(2000, 3)
    write_without_blocks(tmp_path / "old", rows, 0.5)
    handle = ops.afo_served_table(shared_name="test/old")
    for stays_mapped in (False, True):
        ops.afo_load_served_table(handle, f"{tmp_path}/old", in_file=in_file, stays_mapped=stays_mapped)
        np.testing.assert_array_equal(ops.afo_lookup_served(handle, rows.keys, dim=3), rows.weights)
        np.testing.assert_array_equal(ops.afo_lookup_served(handle, rows.keys[:1] - 1, dim=3), [[0.5] * 3])
    assert mapped_bytes(tmp_path / "old") == 0


@pytest.mark.parametrize(
    ("dim", "kept", "most"), [(16, "float32", 1.05), (8, "float32", 1.09), (16, "bfloat16", 1.09), (16, "int8", 1.12)]
)
def test_the_changes_of_a_thousand_rows_take_little_more_than_the_rows(
    ops: Any, tmp_path: Path, dim: int, kept: RowType, most: float
) -> None:
    rows = some(1000, dim)
    write_changes(tmp_path / "changes", rows, [], Parent(1, "../../1764403200/assets/table-0.rows"), kept)
    of_rows = 8 + (4 if kept == "int8" else 0) + dim * {"float32": 4, "bfloat16": 2, "int8": 1}[kept]
    assert (tmp_path / "changes").stat().st_size <= most * of_rows * len(rows.keys)


@pytest.mark.parametrize(("of_parent", "of_changes"), [("padded", "today"), ("padded", "padded"), ("today", "padded")])
def test_changes_of_either_form_stand_on_tables_of_either(
    ops: Any, tmp_path: Path, of_parent: str, of_changes: str
) -> None:
    def write_padded(path: Path, form: str) -> int:
        if form == "padded":
            path.write_bytes(padded(path.read_bytes()))
        check_table(str(path), path.stat().st_size)
        with path.open("rb") as file:
            return read_header(file.read(MOST_HEADER_BYTES), str(path)).id

    whole, changes = tmp_path / "whole.rows", tmp_path / "changes.rows"
    write_file(whole, Rows(np.array([-4, 1, 2, 3, 9]), np.full((5, 2), 1.0, np.float32)), 0.5, "float32")
    parent = Parent(write_padded(whole, of_parent), "whole.rows")
    write_changes(changes, Rows(np.array([2, 7]), np.full((2, 2), 2.0, np.float32)), [-4, 3], parent)
    write_padded(changes, of_changes)
    handle = ops.afo_served_table(shared_name=f"test/forms/{of_parent}/{of_changes}")
    for stays_mapped in (False, True):
        ops.afo_load_served_table(handle, str(changes), stays_mapped=stays_mapped)
        found = ops.afo_lookup_served(handle, [1, 2, 3, 7, 9, -4, 5], dim=2).numpy()
        np.testing.assert_array_equal(found[:, 0], [1.0, 2.0, 0.0, 2.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize("is_padded", [False, True])
def test_who_writes_changes_refuses_what_servers_refuse(ops: Any, tmp_path: Path, is_padded: bool) -> None:
    path = tmp_path / "table.rows"
    write_changes(path, some(4, 2), [1, 2], Parent(5, "../before/table.rows"))
    content = padded(path.read_bytes()) if is_padded else path.read_bytes()
    # Of a padded file most are zeros.
    for damaged in cut_or_changed(content, range(0, len(content), 37 if is_padded else 1)):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"table.rows is (damaged|no table whose changes can be written)"):
            check_table(str(path), len(damaged))
    path.write_bytes(content)
    check_table(str(path), len(content))


@given(first=st.binary(max_size=200), magic=st.sampled_from([b"AFOROWS3", b"AFOROWS2", b""]))
def test_any_bytes_are_a_header_or_refused(first: bytes, magic: bytes) -> None:
    with pytest.raises(DataError):
        read_header(magic + first, "table")


@pytest.fixture(scope="module")
def large() -> Rows:
    """More than is copied at once."""
    return some(120_000, 16)


@pytest.mark.parametrize("stays_mapped", [False, True])
def test_a_large_table_answers_at_once_and_the_same_file_is_there_once(
    ops: Any, tmp_path: Path, large: Rows, stays_mapped: bool
) -> None:
    path = tmp_path / "large"
    write_file(path, large, 0.5, "float32")
    (tmp_path / "linked").hardlink_to(path)
    handles = [ops.afo_served_table(shared_name=f"test/large/{stays_mapped}/{n}") for n in range(3)]
    for handle, name in zip(handles, ("large", "linked", "large"), strict=True):
        ops.afo_load_served_table(handle, f"file://{tmp_path}/{name}", stays_mapped=stays_mapped)
        for _ in range(3):
            np.testing.assert_array_equal(ops.afo_lookup_served(handle, large.keys, dim=16), large.weights)
    assert mapped_bytes(path) == -(-path.stat().st_size // 4096) * 4096, "the three have one"
    path.unlink()
    tf.raw_ops.DestroyResourceOp(resource=handles[0])
    np.testing.assert_array_equal(ops.afo_lookup_served(handles[1], large.keys, dim=16), large.weights)
    for handle in handles[1:]:
        tf.raw_ops.DestroyResourceOp(resource=handle)


@pytest.mark.parametrize("stays_mapped", [False, True])
def test_a_damaged_place_of_a_large_table_is_an_error_of_what_needs_it(
    ops: Any, tmp_path: Path, large: Rows, stays_mapped: bool
) -> None:
    path = tmp_path / "large"
    write_file(path, large, 0.5, "float32")
    with path.open("r+b") as file:
        file.seek(4096 * 1001 + 50)
        file.write(b"damaged!")
    handle = ops.afo_served_table(shared_name=f"test/damaged/{stays_mapped}")
    ops.afo_load_served_table(handle, str(path), stays_mapped=stays_mapped)
    row = (4096 * 1001 - rows_at("")) // 72
    for _ in range(20):  # before and after all of it was read
        with pytest.raises(tf.errors.DataLossError, match=r"large: it is damaged in bytes 4100096 to 4104191"):
            ops.afo_lookup_served(handle, large.keys[row : row + 50], dim=16)
        np.testing.assert_array_equal(ops.afo_lookup_served(handle, large.keys[:9], dim=16), large.weights[:9])
    tf.raw_ops.DestroyResourceOp(resource=handle)


@pytest.mark.parametrize("stays_mapped", [False, True])
def test_a_saved_model_loads_its_tables_as_it_was_saved(tmp_path: Path, stays_mapped: bool) -> None:
    rows, module = some(100, 3), tf.Module()
    module.table = NativeTable(rows, 0.5, "float32", tmp_path / "files", looks_up=False, stays_mapped=stays_mapped)
    module.lookup = tf.function(module.table.lookup, input_signature=[tf.TensorSpec([None], tf.int64)])
    tf.saved_model.save(module, f"{tmp_path}/saved")
    [file] = (tmp_path / "saved" / "assets").iterdir()
    assert file.name.endswith(".rows")
    loaded = tf.saved_model.load(f"{tmp_path}/saved")
    np.testing.assert_array_equal(loaded.lookup(rows.keys), rows.weights)
    # A small table is in memory unless it is to stay where it is.
    assert (mapped_bytes(file) > 0) == stays_mapped


def test_rows_that_change_on_their_way_become_no_table(ops: Any, tmp_path: Path) -> None:
    path, rows = tmp_path / "rows", some(10, 2)
    write_file(path, rows, 0.0, "float32")
    content = path.read_bytes()[: rows_at("")]
    seal, whole = {"type": 0, "dim": 2}, tf.constant(0, tf.uint64)
    with pytest.raises(tf.errors.DataLossError, match="its rows are not those that were written"):
        ops.afo_seal_served_table(str(path), 10, 0.0, 1, 0, whole, "", **seal)
    assert path.read_bytes()[: rows_at("")] == content
    assert int(ops.afo_seal_served_table(f"{tmp_path}/none", 10, 0.0, 1, 0, whole, "", **seal)) == 2  # ENOENT
    with pytest.raises(tf.errors.InvalidArgumentError, match="no table can be written: it has rows of an unknown type"):
        ops.afo_seal_served_table(str(path), 10, 0.0, 1, 0, whole, "", type=7, dim=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="it has more keys than a table can"):
        ops.afo_seal_served_table(str(path), 10, 0.0, 1, 2**32, whole, "", **seal)
    with pytest.raises(tf.errors.InvalidArgumentError, match="fewer than 0 rows"):
        ops.afo_seal_served_table(str(path), -1, 0.0, 1, 0, whole, "", **seal)


def test_a_file_that_is_cut_off_while_it_is_looked_up_is_an_error(ops: Any, tmp_path: Path) -> None:
    rows, path = some(5000, 4), tmp_path / "rows"
    write_file(path, rows, 0.0, "float32")
    handle = ops.afo_served_table(shared_name="test/cut")
    ops.afo_load_served_table(handle, str(path), in_file=True)
    np.testing.assert_array_equal(ops.afo_lookup_served(handle, rows.keys, dim=4), rows.weights)
    os.truncate(path, 1000)
    np.testing.assert_array_equal(ops.afo_lookup_served(handle, [rows.keys[0] - 1], dim=4), np.zeros((1, 4)))
    with pytest.raises(tf.errors.DataLossError, match="a table of the model is lost: it cannot be read"):
        ops.afo_lookup_served(handle, rows.keys[-3:], dim=4)
