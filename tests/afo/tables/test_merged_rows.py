"""External merge of saved tables, against a dictionary and against reading them into memory."""

import errno
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tensorflow")

from afo.errors import DataError, NoSpaceLeft, NotFound
from afo.tables import merged_rows
from afo.tables.merged_rows import MergedRows, merge_rows
from afo.tables.saved_tables import Rows, SavedTable, chain, read_rows
from saved_chain import Numbered, block, save

pytestmark = pytest.mark.tensorflow

KEYS = st.sampled_from([-(2**63), -7, -1, 0, 1, 2, 3, 2**40, 2**63 - 1])
#: What one checkpoint says of a table: keys that went, and rows.
CHANGES = st.tuples(st.lists(KEYS, max_size=4, unique=True), st.dictionaries(KEYS, st.integers(1, 99).map(float)))
TABLES = (SavedTable("a", 3, "Adagrad", 1), SavedTable("b", 1, "Adagrad", 1))


def whole(rows: MergedRows) -> Rows:
    pieces = [Rows(np.empty(0, np.int64), np.empty((0, rows.dim), np.float32)), *rows.pieces()]
    return Rows(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def in_blocks(number: int, rows: dict[int, float], removed: list[int], of_block: int) -> list[Numbered]:
    """Some rows a block; those that went come with the first, as a server writes them."""
    items, dim = list(rows.items()), TABLES[number].dim
    parts = [dict(items[first : first + of_block]) for first in range(0, len(items), of_block)] or [{}]
    return [(number, block(part, dim, [] if place else removed)) for place, part in enumerate(parts)]


@given(
    st.lists(st.tuples(CHANGES, CHANGES), min_size=1, max_size=5), st.integers(1, 4), st.integers(1, 3),
    st.sampled_from([1, 60, 200, 1 << 20]),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_later_rows_count_and_removed_keys_are_gone(
    tmp_path_factory: pytest.TempPathFactory, changed: list[Any], of_block: int, files: int, gathered: int
) -> None:
    directory, base, url = tmp_path_factory.mktemp("chain"), None, ""
    expected: tuple[dict[int, float], ...] = ({}, {})
    for place, changes in enumerate(changed):
        blocks: list[Numbered] = []
        for number, (removed, rows) in enumerate(changes):
            blocks += in_blocks(number, rows, removed, of_block)
            for key in removed:
                expected[number].pop(key, None)
            expected[number].update(rows)
        own = directory / str(place)
        url = save(own, TABLES, [blocks[file::files] for file in range(files)], base)
        base = own
    merged, in_memory = merge_rows(url, directory, str(directory), gathered=gathered), read_rows(url, str(directory))
    for table, wanted in zip(TABLES, expected, strict=True):
        found = whole(merged[table.name])
        assert dict(zip(found.keys.tolist(), found.weights[:, 0].tolist(), strict=True)) == wanted
        assert found.keys.tolist() == sorted(wanted)
        np.testing.assert_array_equal(found.keys, in_memory[table.name].keys)
        np.testing.assert_array_equal(found.weights, in_memory[table.name].weights)
    assert sorted(path.name for path in directory.iterdir()) == [str(place) for place in range(len(changed))]


def test_only_the_tables_that_are_asked_for_are_written(tmp_path: Path) -> None:
    url = save(tmp_path / "one", TABLES, [[(0, block({5: 2.0}, 3)), (1, block({6: 3.0}, 1))]])
    merged = merge_rows(url, tmp_path, names=["b"])
    assert list(merged) == ["b"]
    assert whole(merged["b"]).keys.tolist() == [6]


def test_memory_does_not_grow_with_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered, random = 1 << 20, np.random.default_rng(3)

    def peak(blocks: int) -> int:
        parts = []
        for _ in range(blocks):
            rows = block(dict.fromkeys(range(2000), 1.0), 16)
            parts.append((0, rows._replace(keys=random.integers(-(2**63), 2**63 - 1, 2000))))
        url = save(tmp_path / str(blocks), [SavedTable("a", 16, "Adagrad", 1)], [parts])
        del parts
        manifests = chain(url)
        # A manifest is read with room for the largest that there may be.
        monkeypatch.setattr(merged_rows, "chain", lambda *_: manifests)
        tracemalloc.start()
        merged = merge_rows(url, tmp_path, gathered=gathered)["a"]
        count = sum(len(piece.keys) for piece in merged.pieces())
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == blocks * 2000
        return found

    peaks = [peak(40), peak(160)]
    assert max(peaks) < 10 * gathered, peaks
    assert peaks[1] < 1.3 * peaks[0], peaks


def of_many(tmp_path: Path) -> MergedRows:
    parts = [(0, block(dict.fromkeys(range(first, first + 50), 1.0), 3)) for first in range(0, 500, 50)]
    return merge_rows(save(tmp_path / "many", TABLES, [parts]), tmp_path, gathered=4000)["a"]


@pytest.mark.parametrize("how", ["cut off", "changed"])
def test_runs_that_are_not_as_they_were_written_are_an_error(tmp_path: Path, how: str) -> None:
    rows = of_many(tmp_path)
    assert len(whole(rows).keys) == 500
    file = rows._file
    assert file is not None
    if how == "cut off":
        file.truncate(file.seek(0, 2) - 10)
    else:
        file.seek(40)
        file.write(b"\x07")
        file.flush()
    with pytest.raises(DataError, match=f"what this process wrote into {tmp_path} is damaged.*run it again"):
        list(rows.pieces())


def test_a_full_disk_is_an_error_that_names_the_directory_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(NoSpaceLeft, match=f"cannot write rows into {tmp_path}: No space left"):
        of_many(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["many"]


def test_a_disk_that_becomes_full_is_one_too(tmp_path: Path) -> None:
    """/dev/full takes nothing."""
    rows = MergedRows(3, tmp_path)
    with open("/dev/full", "r+b", buffering=0) as full:
        rows._file = full
        with pytest.raises(NoSpaceLeft):
            rows.add_run([np.zeros(10, rows.record)])


def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    url = save(tmp_path / "one", TABLES, [[(0, block({5: 2.0, 6: 3.0}, 3))]])
    path = tmp_path / "one" / "rows-0000-0.afo"
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-9] + b"\x01" + content[-8:], b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"rows-0000-0\.afo is (damaged|cut off)"):
            merge_rows(url, tmp_path)
    path.unlink()
    with pytest.raises(NotFound):
        merge_rows(url, tmp_path)


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    merged = merge_rows(save(tmp_path / "none", TABLES, []), tmp_path)
    assert {name: len(whole(rows).keys) for name, rows in merged.items()} == {"a": 0, "b": 0}
    assert merged_rows.GATHERED_BYTES < 1 << 28
