"""Batches out of leased splits: every record once with its row, in a repeatable order; errors name the place."""

import gzip
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from click_records import SCHEMA, write_files

tf = pytest.importorskip("tensorflow")

from afo.data.pipeline import OPEN_SPLITS, Batch, TrainingInput  # noqa: E402
from afo.data.schema import Feature, Schema  # noqa: E402
from afo.data.split_reader import Lease, SplitReader  # noqa: E402
from afo.data.tfrecord import read_records  # noqa: E402
from afo.errors import DataError, ProtocolError  # noqa: E402
from afo.job import Data, Shuffle  # noqa: E402

pytestmark = pytest.mark.tensorflow

DATA = Data(schema="", train=("x",), batch_size=32, shuffle=Shuffle(buffer=50))


class Source:
    """Hands out leases; then `wait` until all are ended, then `end`."""

    def __init__(self, leases: list[Lease], ended: int | None = None) -> None:
        self._leases = list(leases)
        self._left = len(leases) if ended is None else ended
        self.open = 0
        self.most_open = 0
        self.lock = threading.Lock()

    def next_split(self) -> Lease | Literal["wait", "end"]:
        with self.lock:
            if self._leases:
                self.open += 1
                self.most_open = max(self.most_open, self.open)
                return self._leases.pop(0)
            return "wait" if self._left else "end"

    def ended(self) -> None:
        with self.lock:
            self._left -= 1
            self.open -= 1


def batches(source: Source, data: Data, scratch: Path, schema: Schema = SCHEMA) -> Iterator[Batch]:
    """All batches; a batch's inputs are its records, rows and epochs as they are."""
    with TrainingInput(source.next_split, schema, data, scratch, lambda *tensors: tensors) as reading:
        while (batch := reading.get(30.0)) != "end":
            assert isinstance(batch, Batch), "a batch within 30 s"
            yield batch
            for _ in batch.ended:
                source.ended()


def records_of(batch: Batch) -> list[tuple[bytes, int, int]]:
    if batch.inputs is None:
        return []
    return list(zip(*(tensor.numpy().tolist() for tensor in batch.inputs), strict=True))


def leases_of(directory: Path) -> list[Lease]:
    return [Lease(row, 0, str(path)) for row, path in enumerate(sorted(directory.iterdir()))]


def test_every_record_comes_once_with_its_row_and_its_end_is_told_after_it(tmp_path: Path) -> None:
    write_files(tmp_path / "data", 5, 100)
    source = Source(leases_of(tmp_path / "data"))
    seen: dict[int, list[bytes]] = {}
    for batch in batches(source, DATA, tmp_path):
        assert batch.size == len(records_of(batch)) <= 32
        for record, row, _ in records_of(batch):
            seen.setdefault(row, []).append(record)
        for lease in batch.ended:
            assert sorted(seen[lease.row]) == sorted(read_records(lease.url))
    assert sorted(seen) == list(range(5))
    assert source.open == 0
    assert source.most_open <= 2 * OPEN_SPLITS, "no hoarding of splits that others could read"


def test_batches_mix_the_open_splits(tmp_path: Path) -> None:
    write_files(tmp_path / "data", 2, 200)
    first = next(batches(Source(leases_of(tmp_path / "data")), DATA, tmp_path))
    assert first.size == 32
    assert {row for _, row, _ in records_of(first)} == {0, 1}


def test_a_rest_is_not_held_back_while_others_hold_the_other_splits(tmp_path: Path) -> None:
    write_files(tmp_path / "data", 1, 40)
    source = Source(leases_of(tmp_path / "data"))
    sizes = [batch.size for batch in batches(source, DATA, tmp_path)]
    assert sum(sizes) == 40
    assert max(sizes) == 32


def test_the_order_of_a_split_depends_on_seed_epoch_and_row_alone(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 200)
    path = next(tmp_path.iterdir())

    def order(seed: int = 1, epoch: int = 0, row: int = 0, skip: int = 0, block: int = 16) -> list[bytes]:
        data = Data(schema="", train=("x",), shuffle=Shuffle(buffer=60, seed=seed))
        reader = SplitReader(Lease(row, epoch, str(path), skip), path, data, block)
        return [record for part in iter(reader.next_block, None) for record in part.numpy().tolist()]

    base = order()
    assert sorted(base) == sorted(read_records(str(path)))
    assert base != list(read_records(str(path)))
    assert order(block=7) == base
    assert order(skip=77, block=5) == base[77:]
    assert order(skip=200) == []
    assert base not in (order(seed=2), order(epoch=1), order(row=1))


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_compression_is_recognised(tmp_path: Path, compress: Any) -> None:
    write_files(tmp_path, 1, 50)
    path = next(tmp_path.iterdir())
    plain = list(read_records(str(path)))
    path.write_bytes(compress(path.read_bytes()))
    [block] = iter(SplitReader(Lease(0, 0, str(path)), path, DATA, 100).next_block, None)
    assert sorted(block.numpy().tolist()) == sorted(plain)


def test_an_empty_file_only_ends(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    [batch] = batches(Source([Lease(0, 0, str(tmp_path / "empty"))]), DATA, tmp_path)
    assert (batch.size, batch.inputs, [lease.row for lease in batch.ended]) == (0, None, [0])


def test_damage_is_named_with_file_and_offset(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 200)
    path = next(tmp_path.iterdir())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"{path}: (data|length) of the record at offset \d+ is damaged"):
        list(batches(Source([Lease(0, 0, str(path))]), DATA, tmp_path))


def test_damaged_records_are_skipped_within_the_budget_without_changing_the_order(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 200)
    path = next(tmp_path.iterdir())
    good = list(read_records(str(path)))
    bad = [57, 150]
    content = bytearray(path.read_bytes())
    for number in bad:
        content[sum(len(record) + 16 for record in good[:number]) + 12 + 3] ^= 1
    path.write_bytes(content)
    data = msgspec.structs.replace(DATA, max_bad_records=0.01)

    def order(skip: int) -> list[bytes]:
        reader = SplitReader(Lease(0, 0, str(path), skip), path, data, 10)
        return [record for part in iter(reader.next_block, None) for record in part.numpy().tolist()]

    everything = order(0)
    assert sorted(everything) == sorted(record for number, record in enumerate(good) if number not in bad)
    assert order(3) == everything[3:]
    assert order(140) == everything[140:]
    [batch] = batches(Source([Lease(0, 0, str(path))]), msgspec.structs.replace(data, batch_size=300), tmp_path)
    assert batch.size == 198
    data = msgspec.structs.replace(DATA, max_bad_records=0.009)
    with pytest.raises(DataError, match=r"offset \d+ is damaged.*; 2 of 200 records .* a share of 0\.009"):
        order(0)


def test_a_file_that_is_cut_off_is_named_with_the_offset(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 200)
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=rf"{path}: record at offset \d+ is cut off"):
        list(batches(Source([Lease(0, 0, str(path))]), DATA, tmp_path))


def test_a_feature_in_no_record_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 20)
    schema = Schema(features=(Feature(name="cities", kind="string"),))
    with pytest.raises(DataError, match=r"feature `cities` of the schema is in none .* did you mean `city`\?"):
        list(batches(Source(leases_of(tmp_path)), DATA, tmp_path, schema))


def test_what_the_master_raises_reaches_the_training_loop(tmp_path: Path) -> None:
    def refuse() -> Lease:
        raise ProtocolError("generation 1 has ended")

    with (
        TrainingInput(refuse, SCHEMA, DATA, tmp_path, lambda *tensors: tensors) as reading,
        pytest.raises(ProtocolError, match="generation 1"),
    ):
        reading.get(30.0)
