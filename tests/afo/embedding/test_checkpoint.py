"""Checkpoints of tables: whole and in deltas, onto other numbers of servers, damaged, and cut off at every write."""

import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

tf = pytest.importorskip("tensorflow")

from afo import embedding  # noqa: E402
from afo.embedding.checkpoint import TableSaver, restore, take_over  # noqa: E402
from afo.errors import DataError, NotFound, StorageError  # noqa: E402
from afo.formats import manifest_file  # noqa: E402
from afo.tables.saved_tables import read_manifest, read_rows  # noqa: E402
from afo.tables.slot_map import SLOTS  # noqa: E402

pytestmark = pytest.mark.tensorflow

Factory = Callable[[int], Any]
ADAM = embedding.Adam(learning_rate=0.1)
#: Of one to four servers, with equal ranges or any others.
MAPS = st.integers(1, 4).map(embedding.SlotMap.equal) | st.lists(st.integers(0, SLOTS), max_size=3).map(
    lambda starts: embedding.SlotMap((0, *sorted(starts)))
)
_numbers = itertools.count()


def tables(group: Any) -> tuple[Any, Any]:
    """Two tables of different widths and rules."""
    return (
        embedding.get_embedding_variable("user", 4, optimizer=ADAM, seed=1, group=group),
        embedding.get_embedding_variable("item", 3, optimizer=embedding.Adagrad(), seed=1, group=group),
    )


def train(variables: tuple[Any, ...], keys: Any, step: int = 0, factor: float = 1.0) -> None:
    with embedding.EmbeddingTape() as tape:
        rows = embedding.group_embedding_lookup_sparse(
            variables, [np.asarray(keys, np.int64)] * len(variables), [None] * len(variables)
        )
        loss = factor * tf.add_n([tf.reduce_sum(tf.square(each - 1)) for each in rows])
    tape.gradient(loss)
    tape.apply(step=step)


def seen(variable: Any, keys: Any) -> Any:
    return embedding.embedding_lookup(variable, np.asarray(keys, np.int64)).numpy()


@pytest.mark.parametrize("before", [1, 2, 5])
@pytest.mark.parametrize("after", [1, 2, 5])
def test_onto_any_number_of_servers_weights_slots_and_counts_come_back(
    new_group: Factory, tmp_path: Path, before: int, after: int
) -> None:
    keys = np.arange(-300, 300) * 7919
    old, new = tables(new_group(before)), tables(new_group(after))
    for step in range(3):
        train(old, keys, step)
    url = TableSaver(old[0].group).save(str(tmp_path / "c"))
    assert restore(new[0].group, url) == 1200
    for own, theirs in zip(new, old, strict=True):
        assert own.total_count() == 600
        np.testing.assert_array_equal(seen(own, keys), seen(theirs, keys))
    # The same again from here: slots and Adam's powers were there too.
    train(old, keys, 3)
    train(new, keys, 3)
    for own, theirs in zip(new, old, strict=True):
        np.testing.assert_array_equal(seen(own, keys), seen(theirs, keys))


def test_a_delta_holds_what_changed_and_what_went(new_group: Factory, tmp_path: Path) -> None:
    old = tables(new_group(2))
    train(old, np.arange(1000))
    saver = TableSaver(old[0].group)
    whole = saver.save(str(tmp_path / "0"))
    train(old, [5, 6, 2000])
    assert old[0].remove([7, 8]) == 2
    delta = saver.save(str(tmp_path / "1"), incremental=True)
    assert read_manifest(delta).base == "../0/tables.json"
    sizes = [sum(file.size for file in read_manifest(url).files) for url in (whole, delta)]
    assert sizes[1] < sizes[0] / 20
    new = tables(new_group(3))
    restore(new[0].group, delta)
    assert [each.total_count() for each in new] == [999, 1001]
    for own, theirs in zip(new, old, strict=True):
        np.testing.assert_array_equal(seen(own, np.arange(2001)), seen(theirs, np.arange(2001)))
    assert restore(tables(new_group(1))[0].group, whole) == 2000


def test_a_delta_where_nothing_happened_is_empty_and_a_lookup_alone_is_a_change(
    new_group: Factory, tmp_path: Path
) -> None:
    old = tables(new_group(1))
    train(old, np.arange(10))
    saver = TableSaver(old[0].group)
    saver.save(str(tmp_path / "0"))
    empty = saver.save(str(tmp_path / "1"), incremental=True)
    assert sum(file.size for file in read_manifest(empty).files) == 0
    with embedding.EmbeddingTape():
        embedding.embedding_lookup(old[0], [77])
    delta = saver.save(str(tmp_path / "2"), incremental=True)
    new = tables(new_group(1))
    restore(new[0].group, delta)
    assert new[0].total_count() == 11


class Incremental(RuleBasedStateMachine):
    """Any order of training, removal, whole and incremental checkpoints: the newest is always what the tables are."""

    @initialize(slots=MAPS)
    def begin(self, slots: Any) -> None:
        self.scratch = tempfile.mkdtemp(prefix="afo-incremental-")
        self.old = tables(self.group(slots))
        self.saver = TableSaver(self.old[0].group)
        self.saves = 0

    def group(self, slots: Any) -> Any:
        devices = ["/device:CPU:0"] * slots.servers
        return embedding.TableGroup(devices, name=f"incremental/{next(_numbers)}", slots=slots)

    @rule(keys=st.lists(st.integers(0, 60), min_size=1, max_size=20), factor=st.integers(1, 3))
    def update(self, keys: list[int], factor: int) -> None:
        train(self.old, keys, factor=factor)

    @rule(keys=st.lists(st.integers(0, 60), min_size=1, max_size=20), table=st.integers(0, 1))
    def remove(self, keys: list[int], table: int) -> None:
        self.old[table].remove(keys)

    @rule(incremental=st.booleans(), slots=MAPS)
    def save_and_restore(self, incremental: bool, slots: Any) -> None:
        self.saves += 1
        url = self.saver.save(f"{self.scratch}/{self.saves}", incremental=incremental)
        new = tables(self.group(slots))
        restore(new[0].group, url)
        for own, theirs in zip(new, self.old, strict=True):
            assert own.total_count() == theirs.total_count()
            np.testing.assert_array_equal(seen(own, np.arange(61)), seen(theirs, np.arange(61)))
        for own, (keys, weights) in zip(new, read_rows(url).values(), strict=True):
            assert len(keys) == own.total_count()
            np.testing.assert_array_equal(keys, np.unique(keys))
            np.testing.assert_array_equal(weights, seen(own, keys))

    def teardown(self) -> None:
        if hasattr(self, "scratch"):
            shutil.rmtree(self.scratch)


TestIncremental = Incremental.TestCase
TestIncremental.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)


def test_after_a_hundred_deltas_there_is_a_whole_one(new_group: Factory, tmp_path: Path) -> None:
    old = tables(new_group(1))
    train(old, np.arange(10))
    saver = TableSaver(old[0].group, most_deltas=3)
    urls, deltas = [], []
    for number in range(6):
        urls.append(saver.save(str(tmp_path / str(number)), incremental=True))
        deltas.append(saver.is_delta)
    assert deltas == [read_manifest(url).base is not None for url in urls] == [False, True, True, True, False, True]
    saver.forget()
    assert read_manifest(saver.save(str(tmp_path / "forgotten"), incremental=True)).base is None


def test_a_delta_and_what_it_stands_on_can_be_moved_together(new_group: Factory, tmp_path: Path) -> None:
    old = tables(new_group(1))
    saver = TableSaver(old[0].group)
    for number in range(3):
        train(old, np.arange(10 * number, 10 * number + 20), number)
        url = saver.save(f"file://{tmp_path}/here/g{number}/tables", incremental=True)
    assert read_manifest(url).base == "../../g1/tables/tables.json"
    (tmp_path / "here").rename(tmp_path / "there")
    new = tables(new_group(2))
    restore(new[0].group, f"{tmp_path}/there/g2/tables/tables.json")
    for before, after in zip(old, new, strict=True):
        assert np.array_equal(seen(before, np.arange(40)), seen(after, np.arange(40)))


@pytest.mark.parametrize("with_slots", [True, False])
def test_some_tables_are_taken_over_into_a_group_of_others(
    new_group: Factory, tmp_path: Path, with_slots: bool
) -> None:
    keys = np.arange(300)
    old = tables(new_group(2))
    for step in range(2):
        train(old, keys, step)
    url = TableSaver(old[0].group).save(str(tmp_path / "c"))
    group = new_group(3)
    own = embedding.get_embedding_variable("new", 4, optimizer=ADAM, seed=1, group=group)
    rule = ADAM if with_slots else embedding.Ftrl(learning_rate=0.1, initial_accumulator=0.25)
    user = embedding.get_embedding_variable("user", 4, optimizer=rule, seed=1, group=group)
    assert take_over(group, url, {"user"}, {"user"} if with_slots else set()) == 300
    assert (own.total_count(), user.total_count()) == (0, 300)
    before = seen(old[0], keys)
    np.testing.assert_array_equal(seen(user, keys), before)
    train((user,), keys, 2)
    if with_slots:
        train(old, keys, 2)
        np.testing.assert_array_equal(seen(user, keys), seen(old[0], keys))
    else:  # FTRL's slots as they are for such weights: without l1 and l2 its first step is AdaGrad's
        gradient = 2 * (before - 1)
        moved = before - 0.1 * gradient / np.sqrt(0.25 + gradient**2)
        np.testing.assert_allclose(seen(user, keys), moved, rtol=2e-5, atol=2e-6)


class TestOfOthersReports:
    """What users of other engines reported, replayed."""

    def test_weights_and_slots_are_of_one_instant(self, new_group: Factory, tmp_path: Path) -> None:
        """DeepRec #1023: weights and slots were saved at three instants, so keys came back without their slots.

        Here SGD with momentum 1 and gradient 1 keeps w = -v (v + 1) / 2 in every row at every instant.
        """
        rule = embedding.Momentum(learning_rate=1.0, momentum=1.0)

        def table(servers: int) -> Any:
            return embedding.get_embedding_variable("v", 8, optimizer=rule, initializer=0.0, group=new_group(servers))

        old, stop = table(2), threading.Event()

        def one_step(keys: Any) -> None:
            with embedding.EmbeddingTape() as tape:
                loss = tf.reduce_sum(embedding.embedding_lookup(old, keys))
            tape.gradient(loss)
            tape.apply()

        def work() -> None:
            draw = np.random.default_rng(1)
            while not stop.is_set():
                one_step(draw.permutation(3000)[:1000])

        one_step(np.arange(3000))
        worker = threading.Thread(target=work)
        worker.start()
        saver = TableSaver(old.group)
        urls = [saver.save(str(tmp_path / str(i)), incremental=i % 2 == 1) for i in range(6)]
        stop.set()
        worker.join()
        for url in urls:
            new = table(3)
            assert restore(new.group, url) >= 3000
            before = seen(new, np.arange(3000))
            with embedding.EmbeddingTape() as tape:
                loss = tf.reduce_sum(embedding.embedding_lookup(new, np.arange(3000)))
            tape.gradient(loss)
            tape.apply()
            velocity = before - seen(new, np.arange(3000)) - 1  # the step was by v + 1
            np.testing.assert_array_equal(before, -velocity * (velocity + 1) / 2)
            np.testing.assert_array_equal(velocity, np.repeat(velocity[:, :1], 8, axis=1))

    def test_counts_and_weights_of_a_delta(self, new_group: Factory, tmp_path: Path) -> None:
        """DeepRec #999: keys 0 to 3, twenty, forty, thirty and ten times; each update takes 0.01 off."""
        rule = embedding.Sgd(learning_rate=0.01)

        def table() -> Any:
            return embedding.get_embedding_variable("v", 2, optimizer=rule, initializer=1.0, group=new_group(2))

        old = table()
        saver = TableSaver(old.group)
        steps = [key for key, count in enumerate((20, 40, 30, 10)) for _ in range(count)]

        def step(key: int) -> None:
            with embedding.EmbeddingTape() as tape:
                loss = tf.reduce_sum(embedding.embedding_lookup(old, [key]))
            tape.gradient(loss)
            tape.apply()

        for key in steps[:50]:
            step(key)
        saver.save(str(tmp_path / "whole"))
        for key in steps[50:]:
            step(key)
        delta = saver.save(str(tmp_path / "delta"), incremental=True)
        new = table()
        restore(new.group, delta)
        np.testing.assert_allclose(seen(new, range(4))[:, 0], [0.8, 0.6, 0.7, 0.9], atol=1e-5)

    def test_from_many_servers_to_one(self, new_group: Factory, tmp_path: Path) -> None:
        """TFRA #65: trained on several servers, restored on one machine."""
        old, new = tables(new_group(7)), tables(new_group(1))
        train(old, np.arange(500))
        restore(new[0].group, TableSaver(old[0].group).save(str(tmp_path / "c")))
        assert new[1].total_count() == 500


class TestDamage:
    def saved(self, new_group: Factory, tmp_path: Path) -> str:
        old = tables(new_group(2))
        train(old, np.arange(200))
        return TableSaver(old[0].group).save(str(tmp_path / "c"))

    def refused(self, new_group: Factory, url: str, words: str) -> None:
        new = tables(new_group(2))
        train(new, [1])
        with pytest.raises((DataError, NotFound), match=words):
            restore(new[0].group, url)
        assert sum(each.total_count() for each in new) in (0, 2)  # nothing of it; as before where nothing was begun
        with pytest.raises((DataError, NotFound), match=words):
            read_rows(url)

    @pytest.mark.parametrize("at", [0, 5, 12, 20, 100, -1])
    def test_a_changed_byte(self, new_group: Factory, tmp_path: Path, at: int) -> None:
        url = self.saved(new_group, tmp_path)
        path = tmp_path / "c" / "rows-0001-0.afo"
        content = bytearray(path.read_bytes())
        content[at] ^= 0x10
        path.write_bytes(content)
        self.refused(new_group, url, "rows-0001-0.afo")

    @pytest.mark.parametrize("size", [0, 3, 12, 40, 1000])
    def test_a_file_that_is_cut_off(self, new_group: Factory, tmp_path: Path, size: int) -> None:
        url = self.saved(new_group, tmp_path)
        path = tmp_path / "c" / "rows-0000-0.afo"
        path.write_bytes(path.read_bytes()[:size])
        self.refused(new_group, url, "is cut off|is damaged")

    def test_a_file_that_is_gone_and_a_manifest_that_is_none(self, new_group: Factory, tmp_path: Path) -> None:
        url = self.saved(new_group, tmp_path)
        (tmp_path / "c" / "rows-0000-0.afo").unlink()
        self.refused(new_group, url, "rows-0000-0.afo")
        self.refused(new_group, str(tmp_path / "none" / "tables.json"), "none")
        (tmp_path / "c" / "tables.json").write_text('{"version": 1}')
        self.refused(new_group, url, "no TablesManifest that this version")

    def test_tables_of_another_kind(self, new_group: Factory, tmp_path: Path) -> None:
        url = self.saved(new_group, tmp_path)
        group = new_group(1)
        embedding.get_embedding_variable("user", 4, optimizer=embedding.Ftrl(), group=group)
        with pytest.raises(DataError, match="of width 4 with Adam, and the model has `user` of width 4 with Ftrl"):
            restore(group, url)
        group = new_group(1)
        embedding.get_embedding_variable("user", 4, optimizer=ADAM, group=group)
        with pytest.raises(DataError, match="holds 2 tables, and the model has 1"):
            restore(group, url)

    def test_deltas_that_lead_nowhere(self, new_group: Factory, tmp_path: Path) -> None:
        old = tables(new_group(1))
        saver = TableSaver(old[0].group)
        saver.save(str(tmp_path / "0"))
        delta = saver.save(str(tmp_path / "1"), incremental=True)
        around = replace(read_manifest(delta), base="../1/tables.json")
        Path(delta).write_bytes(manifest_file.encode(around))
        self.refused(new_group, delta, "do not lead to a whole checkpoint")


def test_a_save_that_fails_at_any_write_loses_nothing(
    new_group: Factory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every creation and every rename of a delta fails once; the one before is there, and the next delta has it all."""
    old = tables(new_group(2))
    saver = TableSaver(old[0].group)
    train(old, np.arange(50))
    newest = saver.save(str(tmp_path / "whole"))
    fails, tries = True, 0
    while fails:
        expected = [seen(each, np.arange(80)) for each in old]
        train(old, np.arange(tries, tries + 20))
        with monkeypatch.context() as patched:
            fails = _failing_at(patched, tries)
            try:
                newest = saver.save(str(tmp_path / f"delta{tries}"), incremental=True)
                expected = [seen(each, np.arange(80)) for each in old]
                fails = False
            except StorageError:
                new = tables(new_group(1))
                restore(new[0].group, newest)
                if tries == 0:
                    for own, theirs in zip(new, expected, strict=True):
                        np.testing.assert_array_equal(seen(own, np.arange(80)), theirs)
        tries += 1
    assert tries > 3  # two files of rows and a manifest
    new = tables(new_group(3))
    restore(new[0].group, newest)
    for own, theirs in zip(new, expected, strict=True):
        np.testing.assert_array_equal(seen(own, np.arange(80)), theirs)


def _failing_at(patched: pytest.MonkeyPatch, number: int) -> bool:
    """Has the storage fail when it makes its `number`-th file whole."""
    from afo.storage import local

    counted = itertools.count()
    original = local._LocalSink.commit

    def commit(self: Any) -> None:
        if next(counted) == number:
            raise StorageError("the disk is gone")
        original(self)

    patched.setattr(local._LocalSink, "commit", commit)
    return True
