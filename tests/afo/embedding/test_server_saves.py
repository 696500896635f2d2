"""Servers that are processes of their own save and load their tables: other numbers of them, faults, and kills."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import table_servers  # noqa: E402
from afo.tables import row_block  # noqa: E402
from afo.tables.saved_tables import chain, read_manifest  # noqa: E402

pytestmark = pytest.mark.tensorflow

MANIFEST = "tables.json"


def rows(url: str, *, server: int | None = None) -> dict[tuple[int, int], bytes]:
    """All that a manifest and those before it say of each key of each table, bit for bit."""
    found: dict[tuple[int, int], bytes] = {}
    for path, manifest in chain(url):
        for entry in manifest.files:
            if server is None or entry.server == server:
                for number, block in blocks(Path(path).parent / entry.file):
                    for key in block.removed.tolist():
                        found.pop((number, key), None)
                    for at, key in enumerate(block.keys.tolist()):
                        row = (block.steps[at], block.frequencies[at], block.values[at])
                        found[number, key] = b"".join(np.asarray(each).tobytes() for each in row)
    return found


def blocks(path: Path) -> Iterator[tuple[int, row_block.RowBlock]]:
    with path.open("rb") as file:
        for number, block in row_block.read_blocks(file, path.name, path.stat().st_size):
            yield number, row_block.decode(block, path.name)


def test_what_two_servers_save_any_number_of_others_loads_to_the_bit(tmp_path: Path) -> None:
    with table_servers.running(tmp_path, "", "") as two:
        assert two.run_client("train_and_save", str(tmp_path)) == 0
    url = str(tmp_path / "1" / MANIFEST)
    saved = rows(url)
    assert len(saved) == 2 * table_servers.KEYS - 2
    assert sorted(each.name for each in (tmp_path / "1").iterdir()) == ["rows-0000-0.afo", "rows-0001-0.afo", MANIFEST]
    with table_servers.running(tmp_path, "", "", "") as three:
        assert three.run_client("restore_and_save", url, str(tmp_path / "three")) == 0
        assert three.run_client("restore_one", url, str(tmp_path / "partial")) == 0
    assert rows(str(tmp_path / "three" / MANIFEST)) == saved
    partial = str(tmp_path / "partial" / MANIFEST)
    mine = rows(partial, server=0)
    assert mine == {key: saved[key] for key in mine}
    others = rows(partial, server=1) | rows(partial, server=2)
    assert all(others[key] != saved.get(key) for key in others), "they were trained on"
    assert len(mine) + len(others) == 2 * table_servers.KEYS, "the two that were removed came again elsewhere"


def test_training_goes_on_while_servers_with_one_thread_save(tmp_path: Path) -> None:
    with table_servers.running(tmp_path, "slow", "") as servers:
        assert servers.run_client("train_while_saving", str(tmp_path), str(tmp_path / "answer")) == 0
    steps = int((tmp_path / "answer").read_text())
    assert steps > 10
    newest = rows(str(tmp_path / "1" / MANIFEST))
    changed = {(table, key) for table in (0, 1) for key in range(10)}
    step_of = {key: int(np.frombuffer(row[:4], np.uint32)[0]) for key, row in newest.items()}
    assert {key for key, step in step_of.items() if step == steps} == changed


def test_a_server_that_is_killed_while_it_saves_leaves_no_manifest(tmp_path: Path) -> None:
    with table_servers.running(tmp_path, "", "slow") as servers:
        client = servers.start_client("train_and_save", str(tmp_path))
        await_writing(tmp_path / "0")
        servers.processes[1].kill()
        assert client.wait(30) == table_servers.LOST
    assert not (tmp_path / "0" / MANIFEST).exists()


def test_a_full_disk_is_the_clients_error_and_the_other_servers_end(tmp_path: Path) -> None:
    began = time.monotonic()
    with table_servers.running(tmp_path, "slow", "full") as servers:
        assert servers.run_client("save_as_expected", str(tmp_path / "c"), str(tmp_path / "answer")) == 0
    assert (tmp_path / "answer").read_text() == "NoSpaceLeft: no space left, says the test"
    assert list((tmp_path / "c").iterdir()) == []
    assert time.monotonic() - began < 20


def test_servers_end_what_they_save_for_a_chief_that_was_killed(tmp_path: Path) -> None:
    with table_servers.running(tmp_path, "slow", "slow") as servers:
        chief = servers.start_client("train_and_save", str(tmp_path))
        await_writing(tmp_path / "0")
        chief.kill()
        table_servers.await_true(lambda: not any((tmp_path / "0").iterdir()), "they have given up their files")
        assert servers.run_client("save_as_expected", str(tmp_path / "next"), str(tmp_path / "answer")) == 0
        assert (tmp_path / "answer").read_text() == ""
    assert list((tmp_path / "0").iterdir()) == []
    assert len(read_manifest(str(tmp_path / "next" / MANIFEST)).files) == 2


def test_the_next_chief_waits_for_the_first_ones_end_and_what_it_removed_stays_away(tmp_path: Path) -> None:
    with table_servers.running(tmp_path, "slow", "slow") as servers:
        first = servers.start_client("save_as_expected", str(tmp_path / "first"), str(tmp_path / "answer"))
        await_writing(tmp_path / "first")
        shutil.rmtree(tmp_path / "first")
        assert servers.run_client("save_as_expected", str(tmp_path / "next"), str(tmp_path / "next answer")) == 0
        assert first.wait(30) == 0
        assert (tmp_path / "next answer").read_text() == ""
    assert (tmp_path / "answer").read_text().startswith("NotFound: cannot ")
    assert not (tmp_path / "first").exists()


def await_writing(directory: Path) -> None:
    table_servers.await_true(lambda: directory.is_dir() and any(directory.iterdir()), "a server writes")
