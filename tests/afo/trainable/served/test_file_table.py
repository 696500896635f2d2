"""Hash tables whose rows stay in files, and columns in mapped files, against the same rows in memory."""

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.errors import DataError, NoSpaceLeft  # noqa: E402
from afo.job import ROW_TYPES, RowType  # noqa: E402
from afo.tables.merged_rows import MergedRows  # noqa: E402
from afo.tables.saved_tables import Rows  # noqa: E402
from afo.trainable.served import file_table  # noqa: E402
from afo.trainable.served.file_table import FileTable  # noqa: E402
from afo.trainable.served.frozen_table import FrozenTable  # noqa: E402
from afo.trainable.served.mapped_columns import few_pages  # noqa: E402
from afo.trainable.served.table_form import TableForm  # noqa: E402

pytestmark = pytest.mark.tensorflow

KEYS = st.sampled_from([-(2**63), -5, -1, 0, 1, 2, 7, 2**40, 2**63 - 1])


def merged(rows: Rows, directory: Path, runs: int = 3) -> MergedRows:
    """As the rows of a checkpoint, in some runs."""
    found = MergedRows(rows.dim, directory)
    records = np.zeros(len(rows.keys), found.record)
    records["key"], records["order"], records["weights"] = rows.keys, 1, rows.weights
    for part in np.array_split(np.random.default_rng(1).permutation(records), runs):
        if len(part):
            found.add_run([part])
    return found


def some(count: int, dim: int, seed: int = 0) -> Rows:
    random = np.random.default_rng(seed)
    keys = np.unique(random.integers(-(2**63), 2**63 - 1, count))
    return Rows(keys, random.normal(size=(len(keys), dim)).astype(np.float32))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kept", ROW_TYPES)
@given(held=st.sets(KEYS), asked=st.lists(KEYS), dim=st.integers(1, 9), absent=st.sampled_from([0.0, 0.1]))
@settings(deadline=None, max_examples=20)
def test_rows_in_files_are_those_in_memory_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, kept: RowType, held: set[int], asked: list[int], dim: int, absent: float
) -> None:
    random, directory = np.random.default_rng(dim), tmp_path_factory.mktemp("tables")
    rows = Rows(np.array(sorted(held), np.int64), random.normal(size=(len(held), dim)).astype(np.float32))
    keys, merge = tf.constant(asked, tf.int64), merged(rows, directory)
    wanted = FrozenTable(rows, absent, kept).lookup(keys).numpy().tobytes()
    assert FileTable(merge, absent, kept).lookup(keys).numpy().tobytes() == wanted
    assert FrozenTable(merge, absent, kept).lookup(keys).numpy().tobytes() == wanted
    assert os.listdir(directory) == []


@pytest.mark.parametrize("dim", [1, 16, 1500])
def test_many_keys_of_any_shape_and_other_rows_later(tmp_path: Path, dim: int) -> None:
    rows, other = some(3000, dim), some(1000, dim, seed=1)
    table = FileTable(merged(rows, tmp_path), 0.5, "float32")
    lookup = tf.function(table.lookup, input_signature=[tf.TensorSpec([None, None], tf.int64)])
    keys = np.random.default_rng(2).permutation(np.concatenate([rows.keys, rows.keys, other.keys]))[:6400]
    for held in (rows, other):
        table.load(merged(held, tmp_path))
        wanted = FrozenTable(held, 0.5).lookup(keys.reshape(8, 800))
        np.testing.assert_array_equal(lookup(keys.reshape(8, 800)), wanted)


def test_files_go_with_their_tables(tmp_path: Path) -> None:
    rows = some(1000, 3)
    FileTable(merged(rows, tmp_path), 0.0, "float32")
    gc.collect()
    before = descriptors()
    table: Any = FileTable(merged(rows, tmp_path), 0.0, "float32")
    for _ in range(3):
        table.load(merged(rows, tmp_path))
    frozen: Any = FrozenTable(merged(rows, tmp_path), 0.0, "int8")
    assert os.listdir(tmp_path) == []
    del table, frozen
    gc.collect()
    assert descriptors() == before


def test_the_form_says_which_table_is_made(tmp_path: Path) -> None:
    rows = some(10, 3)
    made = [
        form.make_hash_table(source)
        for form in (TableForm(), TableForm(only_saved=True))
        for source in (rows, merged(rows, tmp_path))
    ]
    assert [type(each) for each in made] == [FrozenTable, FileTable, FrozenTable, FrozenTable]
    for only_saved in (False, True):
        native = TableForm("float32", tmp_path / str(only_saved), only_saved).make_hash_table(merged(rows, tmp_path))
        assert len(os.listdir(tmp_path / str(only_saved))) == 1
        if only_saved:
            with pytest.raises(tf.errors.NotFoundError):  # no rows of it came into memory
                native.lookup(rows.keys)
        else:
            np.testing.assert_array_equal(native.lookup(rows.keys), rows.weights)


@pytest.mark.parametrize("kept", ROW_TYPES)
def test_a_saved_model_of_mapped_columns_holds_their_rows(tmp_path: Path, kept: RowType) -> None:
    rows, module = some(2000, 8), tf.Module()
    module.table = FrozenTable(merged(rows, tmp_path), 0.25, kept)
    module.lookup = tf.function(module.table.lookup, input_signature=[tf.TensorSpec([None], tf.int64)])
    with few_pages():
        tf.saved_model.save(module, str(tmp_path / "model"))
    keys = np.concatenate([rows.keys, [0, 1]])
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.lookup(keys), FrozenTable(rows, 0.25, kept).lookup(keys))


def test_a_file_that_is_not_what_was_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, other = some(100, 3), some(50, 3, seed=1)
    table = FileTable(merged(rows, tmp_path), 0.0, "float32")
    write = file_table.write_rows

    def written_in_part(file: Any, *rest: Any, **options: Any) -> None:
        write(file, *rest, **options)
        file.truncate(7000)

    monkeypatch.setattr(file_table, "write_rows", written_in_part)
    with pytest.raises(DataError, match=f"what this process wrote into {tmp_path} is damaged; run it again: .* bytes"):
        table.load(merged(other, tmp_path))
    np.testing.assert_array_equal(table.lookup(rows.keys), rows.weights)


def test_a_full_disk_is_an_error_that_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = merged(some(100, 3), tmp_path)
    monkeypatch.setattr(file_table.tempfile, "TemporaryFile", lambda **_: open("/dev/full", "r+b"))  # noqa: SIM115
    with pytest.raises(NoSpaceLeft, match=f"cannot write rows into {tmp_path}: No space left"):
        FileTable(rows, 0.0, "float32")
