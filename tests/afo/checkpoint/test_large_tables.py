"""Hash tables of a checkpoint in memory, and in files where they are larger than that."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from afo.checkpoint import restore
from afo.checkpoint.manifest import Manifest, commit
from afo.checkpoint.restore import CheckpointReader
from afo.errors import DataError
from afo.tables.merged_rows import MergedRows
from afo.tables.saved_tables import Rows, SavedTable
from saved_chain import block, save

pytestmark = pytest.mark.tensorflow

#: Of the checkpoint below.
BYTES = 2 * (12 + 28 + 16 * 100 + 100 * 4 * 2 * 2)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A checkpoint with two tables of 100 rows of 2 weights."""
    directory = "g000001-x"
    tables = [SavedTable(name, 2, "Adagrad", 1) for name in ("deep/a", "deep/b")]
    save(tmp_path / directory / "tables", tables, [[(n, block(dict.fromkeys(range(100), n + 1.0), 2)) for n in (0, 1)]])
    manifest = Manifest(
        version=3, generation=1, step=7, final=True, directory=directory, rows={}, parts=(), tables="tables/tables.json"
    )
    return commit(str(tmp_path), manifest)[0]


@pytest.mark.parametrize(
    ("memory", "large"),
    [(None, False), (0, True), (restore._OWN_BYTES + 5 * BYTES, False), (restore._OWN_BYTES + 5 * BYTES - 100, True)],
)
def test_tables_come_into_memory_where_they_fit(url: str, tmp_path: Path, memory: int | None, large: bool) -> None:
    with CheckpointReader(url, tmp_path, memory) as reader:
        assert reader.is_large == large
        tables = reader.hash_tables({"deep/b": 2})
        assert type(tables["deep/b"]) is (MergedRows if large else Rows)
        assert list(tables) == ["deep/b"]
        for name in ({"deep/c": 2}, {"deep/a": 3}):
            with pytest.raises(DataError, match="so it is of another model"):
                reader.hash_tables(name)
        assert list(reader._scratch.iterdir()) == []
    # They outlive the reader, whose directory is gone.
    [piece] = tables["deep/b"].pieces()
    np.testing.assert_array_equal(piece.weights, np.full((100, 2), 2.0))


def test_a_checkpoint_without_hash_tables_is_not_large(tmp_path: Path) -> None:
    manifest = Manifest(version=3, generation=1, step=7, final=True, directory="g000001-x", rows={}, parts=())
    with CheckpointReader(commit(str(tmp_path), manifest)[0], tmp_path, 0) as reader:
        assert not reader.is_large
