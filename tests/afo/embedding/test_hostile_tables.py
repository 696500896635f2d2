"""Saved tables whose checksums are right and whose contents cannot be: every reader refuses them."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("tensorflow")

from afo import embedding
from afo.embedding.checkpoint import TableSaver, restore, take_over
from afo.errors import DataError
from afo.formats import manifest_file
from afo.tables.merged_rows import merge_rows
from afo.tables.saved_tables import RowsFile, SavedTable, chain, read_manifest, read_rows
from saved_chain import block, save

pytestmark = pytest.mark.tensorflow

TABLES = (SavedTable("a", 4, "Adagrad", 1), SavedTable("b", 4, "Adagrad", 1))


def refused(url: str, words: str) -> None:
    """By those that read into memory and into files."""
    with pytest.raises(DataError, match=words):
        read_rows(url)
    with pytest.raises(DataError, match=words):
        merge_rows(url, Path(url).parent)


def rewritten(url: str, **changes: Any) -> str:
    """A manifest as somebody would write it who knows how its checksum is computed."""
    Path(url).write_bytes(manifest_file.encode(replace(read_manifest(url), **changes)))
    return url


@pytest.mark.parametrize("width", [0, 1, 3, 5, 12])
def test_rows_of_another_width(tmp_path: Path, width: int) -> None:
    """numpy would make a wide row of a narrow one."""
    rows = block({1: 7.0, 2: 8.0}, 4)._replace(values=np.ones((2, width), np.float32))
    url = save(tmp_path / "w", TABLES, [[(1, rows)]])
    refused(url, rf"rows-0000-0\.afo is damaged: rows of {width} floats of table `b`, whose rows .* have 4 or 8")


@pytest.mark.parametrize(("optimizer", "width"), [("Adagrad", 4), ("Adagrad", 8), ("Sgd", 4), ("Adam", 12)])
def test_weights_alone_and_with_slots_are_read(tmp_path: Path, optimizer: str, width: int) -> None:
    rows = block({1: 7.0, 2: 8.0}, 4)._replace(values=np.ones((2, width), np.float32))
    url = save(tmp_path / "w", [SavedTable("a", 4, optimizer, 1)], [[(0, rows)]])
    assert read_rows(url)["a"].weights.shape == (2, 4)


def test_weights_of_another_width_are_not_taken_over(new_group: Callable[[int], Any], tmp_path: Path) -> None:
    rows = block({1: 7.0}, 4)._replace(values=np.ones((1, 1), np.float32))
    url = save(tmp_path / "w", [SavedTable("a", 4, "Adagrad", 1)], [[(0, rows)]])
    group = new_group(1)
    embedding.get_embedding_variable("a", 4, optimizer=embedding.Adagrad(), group=group)
    with pytest.raises(DataError, match="rows of 1 floats of table `a`"):
        take_over(group, url, {"a"}, ())


def test_a_file_of_a_server_that_there_is_not(tmp_path: Path) -> None:
    """Nobody would read it, and nobody miss its rows."""
    url = save(tmp_path / "s", TABLES, [[(0, block({1: 7.0}, 4))]])
    rewritten(url, files=(replace(read_manifest(url).files[0], server=1),))
    refused(url, r"rows-0000-0\.afo is of server 1, and its servers are 1")
    url = save(tmp_path / "t", TABLES, [[(0, block({1: 7.0}, 4))]])
    refused(rewritten(url, servers=(1 << 16) + 1), "no TablesManifest")


@pytest.mark.parametrize("weights_only", [False, True])
def test_a_key_of_another_server_than_its_file(
    new_group: Callable[[int], Any], tmp_path: Path, weights_only: bool
) -> None:
    """Whoever owns it does not read this file."""

    def tables() -> Any:
        return embedding.get_embedding_variable("user", 4, optimizer=embedding.Adagrad(), group=new_group(2))

    old = tables()
    with embedding.EmbeddingTape():
        embedding.embedding_lookup(old, np.arange(100))
    url = TableSaver(old.group).save(str(tmp_path / "c"))
    first, second = read_manifest(url).files
    rewritten(url, files=(replace(first, server=1), replace(second, server=0)))
    new = tables()
    with pytest.raises(
        DataError, match=r"rows-000\d-0\.afo: a block of the slots \d+ up to \d+ names a key of another"
    ):
        take_over(new.group, url, {"user"}, ()) if weights_only else restore(new.group, url)
    rewritten(url, files=(first, second))
    assert restore(new.group, url) == 100


@pytest.mark.parametrize(
    "tables",
    [
        TABLES[::-1],
        TABLES[:1],
        *((replace(TABLES[0], **other), TABLES[1]) for other in ({"dim": 2}, {"optimizer": "Ftrl"})),
    ],
)
def test_a_delta_on_other_tables(tmp_path: Path, tables: tuple[SavedTable, ...]) -> None:
    """Its files know tables by their numbers: rows would change places."""
    save(tmp_path / "base", TABLES, [[(0, block({1: 7.0}, 4)), (1, block({2: 8.0}, 4))]])
    refused(save(tmp_path / "delta", tables, [], tmp_path / "base"), "its tables are not those of .*base")


def test_two_tables_of_one_name(tmp_path: Path) -> None:
    url = save(tmp_path / "two", (TABLES[0], TABLES[0]), [[(0, block({1: 7.0}, 4)), (1, block({2: 8.0}, 4))]])
    refused(url, "it has two tables of one name")


def peak_of(use: Callable[[], object]) -> int:
    """Bytes of memory that were taken at once."""
    tracemalloc.start()
    try:
        use()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_is_read_no_further_than_its_manifest_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sizes there it is decided what may be read into memory."""
    large = block({}, 4)._replace(removed=np.zeros(1 << 20, np.int64))
    url = save(tmp_path / "large", TABLES, [[(0, block({1: 7.0}, 4)), (0, large)]])
    rewritten(url, files=(replace(read_manifest(url).files[0], size=200),))
    manifests = chain(url)
    monkeypatch.setattr("afo.tables.saved_tables.chain", lambda *_: manifests)

    def read() -> None:
        with pytest.raises(DataError, match="is damaged: a block of 8388636 bytes"):
            read_rows(url)

    assert peak_of(read) < 4 << 20


def test_a_block_that_claims_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = save(tmp_path / "claim", TABLES, [])
    content = b"\0\0\0\0" + (1 << 31).to_bytes(8, "little") + bytes(100)
    (tmp_path / "claim" / "rows").write_bytes(content)
    entry = RowsFile("rows", 0, (1 << 31) + 12, google_crc32c.value(content))
    manifests = chain(rewritten(url, files=(entry,)))
    monkeypatch.setattr("afo.tables.saved_tables.chain", lambda *_: manifests)

    def read() -> None:
        with pytest.raises(DataError, match="is cut off: 100 bytes are there where 2147483648 should be"):
            read_rows(url)

    assert peak_of(read) < 64 << 20


def test_a_block_of_removed_keys_is_merged_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each becomes a record as wide as a row."""
    count, gathered = 100_000, 1 << 18
    removed = block({}, 64)._replace(removed=np.arange(count))
    rows = block(dict.fromkeys(range(10), 3.0), 64)
    url = save(tmp_path / "gone", [SavedTable("a", 64, "Adagrad", 1)], [[(0, removed), (0, rows)]])
    manifests = chain(url)
    monkeypatch.setattr("afo.tables.merged_rows.chain", lambda *_: manifests)
    found: list[int] = []

    def merge() -> None:
        for piece in merge_rows(url, tmp_path, gathered=gathered)["a"].pieces():
            found.extend(piece.keys.tolist())

    assert peak_of(merge) < 8 << 20
    assert found == list(range(10))


@pytest.mark.parametrize(("server", "powers"), [(0, 1 << 63), (1 << 63, 0)])
def test_numbers_that_the_engine_cannot_count(tmp_path: Path, server: int, powers: int) -> None:
    url = save(tmp_path / "n", TABLES, [[(0, block({1: 7.0}, 4))]])
    file, table = replace(read_manifest(url).files[0], server=server), replace(TABLES[0], powers=powers)
    refused(rewritten(url, tables=(table, TABLES[1]), files=(file,)), "no TablesManifest")
