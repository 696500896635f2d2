"""Checkpoints from one slot map onto another: rows, slots of optimizers, removals, keys that wait; and manifests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

tf = pytest.importorskip("tensorflow")

from afo import embedding  # noqa: E402
from afo.embedding import Eviction, Filter, SlotMap  # noqa: E402
from afo.embedding.checkpoint import TableSaver, restore, take_over  # noqa: E402
from afo.errors import DataError  # noqa: E402
from afo.formats import manifest_file  # noqa: E402
from afo.tables import saved_tables  # noqa: E402
from afo.tables.saved_tables import RowsFile, SavedTable, TablesManifest, read_manifest, read_rows  # noqa: E402
from key_hash import slots_of  # noqa: E402

pytestmark = pytest.mark.tensorflow

Factory = Callable[..., Any]
KEYS = np.arange(-300, 300) * 7919
#: Ranges of a slot and of none, and cuts within what a cell of a filter counts.
EQUAL, SKEWED, SPARSE = SlotMap.equal(3), SlotMap((0, 60001), version=2), SlotMap((0, 0, 7, 8, 20001, 65536))
PAIRS = [(EQUAL, SKEWED), (SKEWED, EQUAL), (EQUAL, SPARSE), (SPARSE, EQUAL), (SKEWED, SPARSE), (SPARSE, SKEWED)]
both_ways = pytest.mark.parametrize(("before", "after"), PAIRS)


def tables(new_group: Factory, slots: SlotMap, **options: Any) -> tuple[Any, Any]:
    """Two tables of different widths and rules."""
    group = new_group(slots.servers, slots)
    adam = embedding.Adam(learning_rate=0.1)
    return (
        embedding.get_embedding_variable("user", 4, optimizer=adam, seed=1, group=group, **options),
        embedding.get_embedding_variable("item", 3, optimizer=embedding.Adagrad(), seed=1, group=group),
    )


def train(variables: tuple[Any, ...], keys: Any, step: int = 0) -> None:
    with embedding.EmbeddingTape() as tape:
        ids = [np.asarray(keys, np.int64)] * len(variables)
        rows = embedding.group_embedding_lookup_sparse(variables, ids, [None] * len(variables))
        loss = tf.add_n([tf.reduce_sum(tf.square(each - 1)) for each in rows])
    tape.gradient(loss)
    tape.apply(step=step)


def seen(variable: Any, keys: Any = KEYS) -> Any:
    return embedding.embedding_lookup(variable, np.asarray(keys, np.int64)).numpy()


def assert_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for own, theirs in zip(one, other, strict=True):
        assert own.total_count() == theirs.total_count()
        np.testing.assert_array_equal(seen(own), seen(theirs))


def counts_by_range(slots: SlotMap, keys: Any) -> list[int]:
    own = slots_of(keys)
    ranges = [slots.range_of(server) for server in range(slots.servers)]
    return [int(((own >= each.start) & (own < each.stop)).sum()) for each in ranges]


@both_ways
def test_rows_and_deltas_come_back_on_another_map(
    new_group: Factory, tmp_path: Path, before: SlotMap, after: SlotMap
) -> None:
    old, new = tables(new_group, before), tables(new_group, after)
    for step in range(2):
        train(old, KEYS[:500], step)
    saver = TableSaver(old[0].group)
    saver.save(str(tmp_path / "0"))
    train(old, KEYS[400:], 2)
    assert old[0].remove(KEYS[:7]) == 7
    delta = saver.save(str(tmp_path / "1"), incremental=True)
    assert read_manifest(delta).base == "../0/tables.json"
    restore(new[0].group, delta)
    assert [each.total_count() for each in new] == [593, 600]
    assert new[0].group.sizes()[0][:, 1].tolist() == counts_by_range(after, KEYS)
    assert_same(new, old)
    train(old, KEYS, 3)  # the rules' slots and Adam's powers were there too
    train(new, KEYS, 3)
    assert_same(new, old)
    # And what is saved from here comes back, too: a whole one, read without servers as well.
    url = TableSaver(new[0].group).save(str(tmp_path / "2"))
    again = tables(new_group, before)
    restore(again[0].group, url)
    assert_same(again, old)
    assert read_rows(url)["item"].keys.tolist() == KEYS.tolist()


@pytest.mark.parametrize("after", [EQUAL, SKEWED, SPARSE])
def test_a_server_alone_takes_its_own_range(new_group: Factory, tmp_path: Path, after: SlotMap) -> None:
    old, new = tables(new_group, SPARSE), tables(new_group, after)
    train(old, KEYS)
    url = TableSaver(old[0].group).save(str(tmp_path / "c"))
    wanted = counts_by_range(after, KEYS)
    for server in range(after.servers):
        restore(new[0].group, url, [server])
        assert new[0].group.sizes()[0][:, 0].tolist() == [*wanted[: server + 1], *[0] * (after.servers - server - 1)]
    assert_same(new, old)


@both_ways
@pytest.mark.parametrize("admitted", [Filter(min_count=3), Filter(min_count=3, max_element_size=1_000_000_000)])
def test_keys_that_wait_are_counted_on_another_map(
    new_group: Factory, tmp_path: Path, before: SlotMap, after: SlotMap, admitted: Filter
) -> None:
    """A cell of the large filter counts 256 slots, so maps cut cells: each server has to know the whole of its own."""
    old, new = (tables(new_group, slots, filter_option=admitted)[:1] for slots in (before, after))
    saver = TableSaver(old[0].group)
    train(old, KEYS, 1)
    saver.save(str(tmp_path / "0"))
    train(old, KEYS[300:], 2)
    delta = saver.save(str(tmp_path / "1"), incremental=True)
    restore(new[0].group, delta)
    assert new[0].total_count() == old[0].total_count() == 0
    train(new, KEYS, 3)
    assert new[0].total_count() == 300, "those that were met three times"
    train(new, KEYS, 4)
    assert new[0].total_count() == 600


def test_a_model_that_takes_tables_over_has_a_map_of_its_own(new_group: Factory, tmp_path: Path) -> None:
    old, new = tables(new_group, SKEWED), tables(new_group, SPARSE)
    train(old, KEYS)
    url = TableSaver(old[0].group).save(str(tmp_path / "c"))
    assert take_over(new[0].group, url, {"item"}, {"item"}) == 600
    assert [each.total_count() for each in new] == [0, 600]
    assert_same(new[1:], old[1:])


def test_servers_of_uneven_ranges_have_their_shares_of_a_capacity(new_group: Factory) -> None:
    variable = tables(new_group, SKEWED, evict_option=Eviction(capacity=3000))[0]
    train((variable,), np.arange(20000))
    variable.group.evict(1)
    held = variable.group.sizes()[0][:, 0]
    shares = [SKEWED.share_of(server, 3000) for server in range(2)]
    assert shares == [2747, 254]
    assert all(share - 64 <= count <= share + 16 for count, share in zip(held.tolist(), shares, strict=True))


MANIFEST = TablesManifest(
    version=4, servers=2, base=None, tables=(SavedTable("user", 4, "Adam", 3),),
    files=(RowsFile("rows-0000-0.afo", 1, 104, 7),),
)  # fmt: skip
#: Written before there were maps.
GOLDEN = b"""{
 "version": 4,
 "servers": 2,
 "base": null,
 "tables": [
  {
   "name": "user",
   "dim": 4,
   "optimizer": "Adam",
   "powers": 3
  }
 ],
 "files": [
  {
   "file": "rows-0000-0.afo",
   "server": 1,
   "size": 104,
   "crc32c": 7
  }
 ],
 "crc32c": "01706c4d"
}"""


class TestManifest:
    def read(self, tmp_path: Path, **changed: Any) -> TablesManifest:
        url = tmp_path / "tables.json"
        url.write_bytes(manifest_file.encode(replace(MANIFEST, **changed)))
        return read_manifest(str(url))

    def test_of_equal_ranges_it_is_what_it_was_byte_for_byte(self, tmp_path: Path) -> None:
        assert manifest_file.encode(MANIFEST) == GOLDEN
        for slots in (SlotMap.equal(2), SlotMap((0, 32768), version=7)):
            whole = saved_tables.manifest_of(slots, base=None, tables=MANIFEST.tables, files=MANIFEST.files)
            assert manifest_file.encode(whole) == GOLDEN
        assert self.read(tmp_path).slots == SlotMap.equal(2)

    def test_other_ranges_are_in_it(self, new_group: Factory, tmp_path: Path) -> None:
        group = tables(new_group, SKEWED)[0].group
        url = TableSaver(group).save(str(tmp_path / "c"))
        written = json.loads(Path(url).read_bytes())
        assert (written["version"], written["servers"], written["slot_starts"]) == (5, 2, [0, 60001])
        assert read_manifest(url).slots == SlotMap((0, 60001)), "ranges alone, without the version"

    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            ({"version": 5, "slot_starts": (0, 9, 70000), "servers": 3},
             "start 2 of a slot map is 70000; give 9, which is the start before it, to 65536"),
            ({"version": 5, "slot_starts": (1, 9)}, "the first start of a slot map is 1; give 0"),
            ({"version": 5, "slot_starts": (0, 9, 20)}, "it has 3 slot_starts for 2 servers"),
            ({"version": 5}, "it is of format 5 and has no slot_starts, which format 5 alone has"),
            ({"slot_starts": (0, 9)}, "it is of format 4 and has slot_starts, which format 5 alone has"),
            ({"files": (RowsFile("rows-0002-0.afo", 2, 1, 7),)}, "is of server 2, and its servers are 2"),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_is_refused(self, tmp_path: Path, changed: dict[str, Any], words: str) -> None:
        with pytest.raises(DataError, match=r"tables\.json is damaged: .*; put back a copy that is whole") as caught:
            self.read(tmp_path, **changed)
        assert words in str(caught.value)

    def test_a_format_that_is_not_known(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="tables of format 6; this version of afo reads formats 1 to 5"):
            self.read(tmp_path, version=6)

    def test_starts_of_another_kind(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no TablesManifest that this version of afo understands"):
            self.read(tmp_path, version=5, slot_starts=(0, 1.5))
