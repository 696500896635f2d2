"""Batches out of leased splits: every record once with its row, in a repeatable order; errors name the place."""

import gzip
import re
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from click_records import SCHEMA, expected_acks, splitmix64, write_files

tf = pytest.importorskip("tensorflow")

from afo.data.example import decode, encode  # noqa: E402
from afo.data.feature import Feature  # noqa: E402
from afo.data.io.bad_records import BadRecords, Tally  # noqa: E402
from afo.data.io.tfrecord import RecordWriter, read_records  # noqa: E402
from afo.data.pipeline.batch_fragments import Origins  # noqa: E402
from afo.data.pipeline.batcher import OPEN_SPLITS, Batch, TrainingInput  # noqa: E402
from afo.data.pipeline.split_reader import Lease, SplitReader  # noqa: E402
from afo.data.schema import Schema  # noqa: E402
from afo.errors import DataError, ProtocolError  # noqa: E402
from afo.job import Data, NegativeSampling, Shuffle  # noqa: E402
from afo.models.parser import parser_of  # noqa: E402
from afo.state.position import origin_of  # noqa: E402

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
    """All batches; a batch's inputs are its records, where they come from, and what they are parsed to."""
    parser = parser_of(schema, data)

    def prepare(records: Any, origins: Origins) -> Any:
        return records, origins, parser(records)

    with TrainingInput(source.next_split, schema, data, scratch, parser, prepare) as reading:
        while (batch := reading.get(30.0)) != "end":
            assert isinstance(batch, Batch), "a batch within 30 s"
            yield batch
            for _ in batch.ended:
                source.ended()


def records_of(batch: Batch) -> list[tuple[bytes, int, int]]:
    if batch.inputs is None:
        return []
    records, origins, _ = batch.inputs
    return list(zip(*(each.numpy().tolist() for each in (records, origins.files, origins.epochs)), strict=True))


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
        for end in batch.ended:
            assert sorted(seen[end.lease.split]) == sorted(read_records(end.lease.url))
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


def test_the_order_of_a_split_depends_on_seed_epoch_and_number_alone(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 200)
    path = next(tmp_path.iterdir())

    def order(seed: int = 1, epoch: int = 0, split: int = 0, skip: int = 0, block: int = 16) -> list[bytes]:
        data = Data(schema="", train=("x",), shuffle=Shuffle(buffer=60, seed=seed))
        reader = SplitReader(Lease(split, epoch, str(path), skip), path, data, block, SCHEMA)
        return [record for part in iter(reader.next_block, None) for record in part.numpy().tolist()]

    base = order()
    assert sorted(base) == sorted(read_records(str(path)))
    assert base != list(read_records(str(path)))
    assert order(block=7) == base
    assert order(skip=77, block=5) == base[77:]
    assert order(skip=200) == []
    assert base not in (order(seed=2), order(epoch=1), order(split=1))


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_compression_is_recognised(tmp_path: Path, compress: Any) -> None:
    write_files(tmp_path, 1, 50)
    path = next(tmp_path.iterdir())
    plain = list(read_records(str(path)))
    path.write_bytes(compress(path.read_bytes()))
    [block] = iter(SplitReader(Lease(0, 0, str(path)), path, DATA, 100, SCHEMA).next_block, None)
    assert sorted(block.numpy().tolist()) == sorted(plain)


def test_an_empty_file_only_ends(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    [batch] = batches(Source([Lease(0, 0, str(tmp_path / "empty"))]), DATA, tmp_path)
    assert (batch.size, batch.inputs, [end.lease.split for end in batch.ended]) == (0, None, [0])


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

    bad_records = BadRecords(0.01)

    def order(skip: int) -> list[bytes]:
        lease = Lease(0, 0, str(path), skip)
        reader = SplitReader(lease, path, data, 10, SCHEMA, bad_records)
        return [record for part in iter(reader.next_block, None) for record in part.numpy().tolist()]

    everything = order(0)
    assert sorted(everything) == sorted(record for number, record in enumerate(good) if number not in bad)
    assert order(3) == everything[3:]
    assert order(140) == everything[140:]
    [batch] = batches(Source([Lease(0, 0, str(path))]), msgspec.structs.replace(data, batch_size=300), tmp_path)
    [end] = batch.ended
    assert (batch.size, end.bad.bad, end.bad.unread) == (198, 2, 2)
    assert re.search(rf"{path}: data of the record at offset \d+ is damaged", end.bad.first)


def test_bad_records_are_judged_by_their_share(capsys: pytest.CaptureFixture[str]) -> None:
    bad = BadRecords(0.01)
    for number in range(2):
        bad.add("a", f"f: record at offset {number}: broken", unread=False)
    bad.judge(200, "f")
    with pytest.raises(DataError, match=r"2 of 199 records of f are bad, .* a share of 0\.01"):
        bad.judge(199, "f")
    assert capsys.readouterr().err.count("skipped") == 2
    assert bad.pop("a") == Tally(2, 0, "f: record at offset 0: broken")
    assert bad.pop("a") == Tally()


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
        TrainingInput(refuse, SCHEMA, DATA, tmp_path, parser_of(SCHEMA, DATA), lambda *_: None) as reading,
        pytest.raises(ProtocolError, match="generation 1"),
    ):
        reading.get(30.0)


@pytest.mark.parametrize("stage", ["files", "preparing"])
def test_a_wait_is_known_by_what_the_input_does_meanwhile(tmp_path: Path, stage: str) -> None:
    write_files(tmp_path / "data", 1, 40)
    source, reached, go_on = Source(leases_of(tmp_path / "data")), threading.Event(), threading.Event()

    def held(done: str) -> None:
        if done == stage:
            reached.set()
            assert go_on.wait(60)

    def next_split() -> Any:
        held("files")
        return source.next_split()

    def prepare(records: Any, origins: Origins) -> Any:
        held("preparing")
        return records, origins

    with TrainingInput(next_split, SCHEMA, DATA, tmp_path, parser_of(SCHEMA, DATA), prepare) as reading:
        assert reached.wait(60)
        before = after = reading.waited
        while after == before:  # until the thread that makes batches has come to wait for this file
            assert reading.get(0.05) == "wait"
            after = reading.waited
        assert (after - before).total == getattr(after - before, stage)
        go_on.set()
        assert isinstance(reading.get(30.0), Batch)


def test_waiting_for_what_others_hold_is_not_counted(tmp_path: Path) -> None:
    with TrainingInput(lambda: "wait", SCHEMA, DATA, tmp_path, parser_of(SCHEMA, DATA), lambda *_: None) as reading:  # type: ignore[arg-type]
        before = None
        while reading.waited != before:  # for ever, if it were counted
            before = reading.waited
            assert reading.get(0.05) == "wait"


def totals(all_batches: list[Batch]) -> dict[int, tuple[int, int]]:
    """Count and xor of each split, as positions and ends add them up."""
    found: dict[int, tuple[int, int]] = {}

    def add(row: int, count: int, xor: int) -> None:
        before = found.get(row, (0, 0))
        found[row] = before[0] + count, before[1] ^ (xor % 2**64)

    for batch in all_batches:
        if batch.inputs is not None:
            _, origins, parsed = batch.inputs
            origin = origin_of(parsed.identity, origins)
            for row, count, xor in zip(*(each.numpy().tolist() for each in origin[:1] + origin[2:]), strict=True):
                add(row, count, xor)
        for end in batch.ended:
            add(end.lease.split, end.left_out, end.xor)
    return found


SAMPLED = msgspec.structs.replace(DATA, sample_id="sample_id", negative_sampling=NegativeSampling(keep=0.3))


def test_sampled_negatives_are_the_same_ones_always_and_every_record_still_counts(tmp_path: Path) -> None:
    write_files(tmp_path, 3, 200)

    def trained(data: Data) -> tuple[dict[int, float], list[Batch]]:
        seen = list(batches(Source(leases_of(tmp_path)), data, tmp_path))
        weights = [
            (int(identity), float(weight))
            for batch in seen
            if batch.inputs is not None
            for identity, weight in zip(batch.inputs[2].identity.numpy(), batch.inputs[2].weight.numpy(), strict=True)
        ]
        return dict(weights), seen

    everything, _ = trained(msgspec.structs.replace(SAMPLED, negative_sampling=None))
    sampled, seen = trained(SAMPLED)
    assert totals(seen) == dict(enumerate(expected_acks(3, 200)))
    assert trained(msgspec.structs.replace(SAMPLED, batch_size=7))[0] == sampled
    assert set(sampled) < set(everything)
    # Kept negatives stand for all of them: 1 / keep each.
    heavy = [weight for weight in sampled.values() if weight != 1.0]
    assert heavy == pytest.approx([1 / 0.3] * len(heavy))
    positives = len(sampled) - len(heavy)
    negatives = len(everything) - positives
    assert len(heavy) == pytest.approx(0.3 * negatives, abs=4 * (negatives * 0.3 * 0.7) ** 0.5)
    other_seed = msgspec.structs.replace(SAMPLED, shuffle=Shuffle(seed=77))
    assert set(trained(other_seed)[0]) != set(sampled)


def write_with_misfits(path: Path, bad: dict[int, dict[str, Any]]) -> list[bytes]:
    """200 records, some with features changed; returns all of them."""
    write_files(path.parent, 1, 200)
    records = list(read_records(str(path)))
    for number, changed in bad.items():
        features: dict[str, Any] = {**decode(records[number]), **changed}
        records[number] = encode({name: values for name, values in features.items() if values is not None})
    with RecordWriter(str(path)) as writer:
        writer.write_all(records)
    return records


BAD: dict[int, dict[str, Any]] = {
    120: {"age": ["old"]},
    57: {"label": None},
    150: {"liked": [1, 2, 3]},
    99: {"age": []},
}


@pytest.mark.parametrize("sampling", [None, NegativeSampling(keep=1.0)])
def test_records_that_do_not_fit_are_skipped_named_and_accounted_for(
    tmp_path: Path, sampling: NegativeSampling | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "part-00.tfrecord"
    records = write_with_misfits(path, BAD)
    data = msgspec.structs.replace(SAMPLED, max_bad_records=0.02, negative_sampling=sampling)
    whole = list(batches(Source([Lease(0, 0, str(path))]), data, tmp_path))
    assert sum(batch.size for batch in whole) == 196
    [end] = [end for batch in whole for end in batch.ended]
    assert (end.bad.bad, end.bad.unread) == (4, 0)
    count, xor = totals(whole)[0]
    identities = {number: splitmix64(number) for number in range(200) if number not in BAD}
    left = xor
    for each in identities.values():
        left ^= each
    assert count == 200
    assert left != 0, "bad records are part of the xor, by their bytes"
    told = capsys.readouterr().err
    for number, words in (
        (120, "`age` holds bytes"),
        (57, "0 values of `label`"),
        (150, "`liked` holds 3 values"),
        (99, "`age` is there without a value"),
    ):
        offset = sum(len(record) + 16 for record in records[:number])
        assert re.search(rf"{path}: record at offset {offset}: .*{words}", told)


@pytest.mark.parametrize("sampling", [None, NegativeSampling(keep=0.5)])
@pytest.mark.parametrize("skip", [0, 64, 130, 200])
def test_a_replaced_reader_tells_the_same_bad_records(
    tmp_path: Path, skip: int, sampling: NegativeSampling | None
) -> None:
    path = tmp_path / "part-00.tfrecord"
    write_with_misfits(path, BAD)
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    data = msgspec.structs.replace(SAMPLED, max_bad_records=0.05, negative_sampling=sampling)

    def bad(begun: int) -> tuple[int, int]:
        seen = batches(Source([Lease(0, 0, str(path), begun)]), data, tmp_path)
        [end] = [end for batch in seen for end in batch.ended]
        return end.bad.bad, end.bad.unread

    assert bad(skip) == bad(0)
    assert bad(0)[1] == 1


def test_where_none_may_be_bad_the_first_one_ends_the_training_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "part-00.tfrecord"
    records = write_with_misfits(path, {120: {"age": ["old"]}})
    offset = sum(len(record) + 16 for record in records[:120])
    with pytest.raises(DataError, match=rf"{path}: record at offset {offset}: .*`age` holds bytes.*max_bad_records"):
        list(batches(Source([Lease(0, 0, str(path))]), DATA, tmp_path))
