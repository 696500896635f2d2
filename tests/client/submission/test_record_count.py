"""How many steps a job will make, by what its files look like."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afo.data.example import encode
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import RecordWriter
from afo.errors import SpecError
from afo.formats.units import Interval
from afo.job import Checkpoint, Data, Export, Job, Model, NegativeSampling, Optimizer, RoleSpec, Schedule, Train
from afo.site.config import load_config
from afo_client.submission.inspection import Inspection
from afo_client.submission.plan import make_am_config
from afo_client.submission.record_count import complete_schedule, eval_interval, steps_of, trained_records


def write(folder: Path, counts: tuple[int, ...]) -> Data:
    """A file of each count; records of a file are as long as its number says, every fourth is a click."""
    for place, count in enumerate(counts):
        with RecordWriter(str(folder / f"part-{place:02d}")) as writer:
            for number in range(count):
                writer.write(encode({"x": [0.5] * place, "click": [int(number % 4 == 0)]}))
    return Data(train=(f"{folder}/part-*",), label="click", batch_size=100, epochs=3)


def about(data: Data) -> int | None:
    return trained_records(find_splits(data.train), data)


def test_records_of_one_length_are_counted_exactly(tmp_path: Path) -> None:
    assert about(write(tmp_path, (1234,))) == 1234


def test_files_of_many_lengths_are_told_by_a_few(tmp_path: Path) -> None:
    counts = tuple(range(300, 700, 20))
    assert about(write(tmp_path, counts)) == pytest.approx(sum(counts), rel=0.1)


def test_what_is_not_sampled_does_not_count(tmp_path: Path) -> None:
    data = write(tmp_path, (1000,))
    sampled = Data(train=data.train, label="click", negative_sampling=NegativeSampling(keep=0.2), sample_id="id")
    assert about(sampled) == pytest.approx(1000 * (0.25 + 0.75 * 0.2), rel=0.02)


def test_parquet_says_itself(tmp_path: Path) -> None:
    for place, rows in enumerate((10, 30)):
        table = pa.table({"x": [0.5] * rows, "click": [0] * rows})
        pq.write_table(table, tmp_path / f"{place}.parquet")
    assert about(Data(train=(f"{tmp_path}/*.parquet",), label="click")) == 40


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_of_compressed_files_nobody_knows(tmp_path: Path, compression: Any) -> None:
    with RecordWriter(str(tmp_path / "part-0"), compression) as writer:
        for number in range(1000):
            writer.write(encode({"x": [0.5], "click": [number % 2]}))
    assert about(Data(train=(f"{tmp_path}/*",), label="click")) is None
    assert about(Data(train=(f"{tmp_path}/*",), label="click", compression=compression)) is None


def test_an_empty_file_tells_nothing(tmp_path: Path) -> None:
    assert about(write(tmp_path, (0,))) is None


@pytest.mark.parametrize(
    ("evaluator", "said", "exported"),
    [
        (None, None, "last"), (RoleSpec(), None, "best"), (RoleSpec(optional=True), None, "last"),
        (RoleSpec(), "last", "last"),
    ],
)  # fmt: skip
def test_the_checkpoint_that_is_exported_is_settled_before_the_job_starts(
    evaluator: RoleSpec | None, said: Any, exported: str
) -> None:
    roles: Any = {"ps": RoleSpec(), "worker": RoleSpec()} | ({} if evaluator is None else {"evaluator": evaluator})
    job = Job(name="x", roles=roles, data=Data(train=("x",), eval=("y",)), export=Export(checkpoint=said))
    assert make_am_config(load_config("local"), job, Inspection(b"", (), ())).job.export.checkpoint == exported


@pytest.mark.parametrize(
    ("every", "steps"),
    [("10m", "10m"), ("7 steps", "7 steps"), ("450 samples", "4 steps"), ("9 samples", "1 step"),
     ("0.25 epochs", "3 steps"), ("2 epochs", "24 steps")],
)  # fmt: skip
def test_evaluations_go_by_steps(tmp_path: Path, every: str, steps: str) -> None:
    job = Job(name="x", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=write(tmp_path, (10,)),
              train=Train(eval_every=Interval.parse(every)))  # fmt: skip
    assert eval_interval(job, 1200) == steps
    found = Inspection(b"", (), (), records=1200)
    assert make_am_config(load_config("local"), job, found).job.train.eval_every == steps
    if "epochs" in every:
        with pytest.raises(SpecError, match=r"eval_every: '.* epochs?': how many records an epoch has is not known"):
            eval_interval(job, None)


def test_steps_and_the_schedule_by_them(tmp_path: Path) -> None:
    data = write(tmp_path, (10,))
    job = Job(name="x", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=data)
    assert [steps_of(job, records) for records in (1000, 1001, None)] == [30, 31, None]
    assert complete_schedule(job, 1000) == Schedule(cooldown=0.2, steps=30)
    assert complete_schedule(job, None) == Schedule(cooldown=0.2)
    short = Job(name="x", roles=job.roles, data=data, train=Train(max_steps=7))
    assert [steps_of(short, records) for records in (1000, 100, None)] == [7, 3, 7]
    endless = Job(name="x", roles=job.roles, data=msgspec.structs.replace(data, epochs=10**9))
    assert complete_schedule(endless, 10**6).steps is None, "more than a job file may say"
    own = Job(name="x", roles=job.roles, data=data, model=Model(entry="x.py:f"))
    assert complete_schedule(own, 1000).cooldown == 0, "what Keras does not do is not done"
    daily = Job(name="x", roles=job.roles, data=data, checkpoint=Checkpoint(warm_start="/models"))
    assert complete_schedule(daily, 1000).cooldown == 0, "the next day goes on from here"
    said = Job(name="x", roles=job.roles, data=data, optimizer=Optimizer(schedule=Schedule(cooldown=0.5, steps=12)))
    assert complete_schedule(said, 1000) == Schedule(cooldown=0.5, steps=12)
