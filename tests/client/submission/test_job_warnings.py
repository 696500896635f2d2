"""What a job is warned of before it starts."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afo.data.example import encode
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import RecordWriter
from afo.formats.units import Duration, Interval, Memory
from afo.job import (
    Data,
    Elastic,
    Export,
    Job,
    MasterSpec,
    Model,
    NegativeSampling,
    Optimizer,
    RoleSpec,
    Schedule,
    Train,
)
from afo_client.cli.main import run
from afo_client.submission import job_warnings as module
from afo_client.submission.inspection import Inspection
from afo_client.submission.job_warnings import job_warnings, small_containers, small_exporter
from afo_client.submission.record_count import trained_records
from fake_runtime import small_job

OFTEN = Duration(30)


def write(path: Path, count: int, label: Callable[[int], int] = lambda number: number % 2) -> str:
    with RecordWriter(str(path)) as writer:
        for number in range(count):
            writer.write(encode({"x": [0.5], "click": [label(number)]}))
    return str(path)


def warned(
    train: str, evaluation: str = "", *, workers: Any = 1, local: bool = False, splits: int = 1, entry: str = "x.py:f",
    steps: int | None = None, every: str = "10m", warm_start: str = "", schedule: Schedule | None = None, **data: Any,
) -> list[str]:  # fmt: skip
    roles: Any = {"ps": RoleSpec(), "worker": RoleSpec(instances=workers)}
    given = Data(train=(train,), eval=(evaluation,) if evaluation else (), label="click", **data)
    job = Job(
        name="x", roles=roles, data=given, model=Model(entry=entry), train=Train(eval_every=Interval.parse(every)),
        optimizer=Optimizer(schedule=schedule or Schedule(steps=steps)),
    )  # fmt: skip
    files = find_splits(given.train)
    found = Inspection(
        b"", files, find_splits(given.eval) if evaluation else (), files * splits,
        records=trained_records(files, given), warm_start=warm_start,
    )  # fmt: skip
    return list(job_warnings(job, found, local=local))


def test_a_usual_job_is_not_warned_of_anything(tmp_path: Path) -> None:
    train, evaluation = write(tmp_path / "train", 1000), write(tmp_path / "eval", 1000)
    assert warned(train, evaluation, batch_size=10, local=True) == []


def test_few_steps_are_counted_by_the_length_of_the_first_records(tmp_path: Path) -> None:
    train = write(tmp_path / "train", 1000)
    (warning,) = warned(train, batch_size=256, epochs=2)
    assert warning.startswith("about 8 steps in all (1,000 samples, 2 epochs, batches of 256)")
    assert warned(train, batch_size=256, epochs=26) == []
    table = pa.table({"x": [0.5] * 1000, "click": [0, 1] * 500})
    pq.write_table(table, tmp_path / "a.parquet")
    (warning,) = warned(str(tmp_path / "a.parquet"), batch_size=500)
    assert warning.startswith("about 2 steps in all (1,000 samples, 1 epoch")
    (tmp_path / "a.gz").write_bytes(gzip.compress(Path(train).read_bytes()))
    assert warned(str(tmp_path / "a.gz"), batch_size=256) == [], "how many records it holds is not known"
    (warning,) = warned(str(tmp_path / "a.gz"), entry="")
    assert "the learning rate stays as it is to the end" in warning


def test_a_warm_start_may_be_of_few_steps(tmp_path: Path) -> None:
    train = write(tmp_path / "train", 1000)
    assert warned(train, batch_size=256, warm_start="models/manifest-1.json") == []
    assert len(warned(train, batch_size=256)) == 1


def test_steps_that_are_said_and_are_not_those_that_will_be_made(tmp_path: Path) -> None:
    train = write(tmp_path / "train", 1000)
    assert warned(train, batch_size=5, entry="", steps=210) == []
    (warning,) = warned(train, batch_size=5, entry="", steps=500)
    assert warning == "`optimizer.schedule.steps` is 500, and the job will make about 200 steps"


@pytest.mark.parametrize(
    ("schedule", "share"),
    [
        (Schedule(decay="linear"), "0.2%"), (Schedule(decay="cosine", decay_steps=401), "49.9%"),
        (Schedule(decay="exponential", decay_steps=1000, warmup_steps=150), "5.0%"),
        (Schedule(decay="exponential", decay_steps=1000), ""), (Schedule(decay="linear", decay_steps=200), ""),
        (Schedule(), ""),
    ],
)  # fmt: skip
def test_a_decay_that_is_longer_than_the_job(tmp_path: Path, schedule: Schedule, share: str) -> None:
    train = write(tmp_path / "train", 1000)
    found = warned(train, batch_size=5, schedule=schedule)
    assert [f"will make about 200 steps: {share} of its {schedule.decay} decay" in each for each in found] == (
        [True] if share else []
    )
    assert warned(train, batch_size=5, schedule=schedule, warm_start="models/manifest-1.json") == []


def test_evaluations_farther_apart_than_the_job_is_long(tmp_path: Path) -> None:
    train = write(tmp_path / "train", 1000)
    assert warned(train, batch_size=5, every="1 epoch") == []
    (warning,) = warned(train, batch_size=5, every="1500 samples")
    assert warning == (
        "`train.eval_every` is 300 steps, and the job will make about 200 steps: it is evaluated at its end alone"
    )


def test_workers_without_a_split(tmp_path: Path) -> None:
    train = write(tmp_path / "train", 1000)
    (warning,) = warned(train, workers=5, splits=3, batch_size=5)
    assert warning.startswith("5 workers and 3 splits of training data: 2 will have nothing to read")
    (warning,) = warned(train, workers=3, splits=5, batch_size=5)
    assert warning.startswith("3 workers and 5 splits of training data: a worker reads ahead and may hold two, so")
    assert warned(train, workers=3, splits=6, batch_size=5) == []
    assert warned(train, workers=1, splits=1, batch_size=5) == [], "there is no other one"
    (warning,) = warned(train, workers=Elastic(min=1, max=4), splits=3, batch_size=5)
    assert warning.startswith("4 workers and 3 splits")


def test_labels_of_one_class(tmp_path: Path) -> None:
    both, none = write(tmp_path / "both", 1000), write(tmp_path / "none", 1000, lambda number: 0)
    late = write(tmp_path / "late", 1000, lambda number: number // 999)
    assert warned(late, late, batch_size=5) == []
    (warning,) = warned(both, none, batch_size=5)
    assert warning.startswith(f"$.data.eval: `click` is 0 in each of the first 1,000 records of {none}; an AUC")
    (warning,) = warned(none, both, batch_size=5)
    assert warning.startswith(f"$.data.train: `click` is 0 in each of the first 1,000 records of {none}; a model")


def test_a_label_that_is_no_number_is_a_bad_record_and_no_class(tmp_path: Path) -> None:
    with RecordWriter(str(tmp_path / "train")) as writer:
        for number in range(1000):
            writer.write(encode({"x": [0.5], "click": [b"yes"] if number % 100 == 7 else [number % 2]}))
    sampled = {"negative_sampling": NegativeSampling(keep=0.5), "sample_id": "id"}
    assert warned(str(tmp_path / "train"), batch_size=5, max_bad_records=0.1, **sampled) == []


def test_more_processes_than_this_machine_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {0, 1})
    train = write(tmp_path / "train", 1000)
    assert warned(train, workers=7, splits=14, batch_size=5, local=True) == []
    (warning,) = warned(train, workers=50, splits=100, batch_size=5, local=True)
    assert warning.startswith("51 processes on 2 cores of this machine")
    assert warned(train, workers=50, splits=100, batch_size=5) == [], "a cluster has other cores"


def test_memory_without_its_unit() -> None:
    def of(worker: object, master: object = "1 GiB") -> list[str]:
        roles: Any = {"worker": RoleSpec(memory=Memory.parse(worker)), "ps": RoleSpec()}
        return list(
            small_containers(Job(name="x", roles=roles, am=MasterSpec(memory=Memory.parse(master)), program="a"))
        )

    assert of("256m", "64m") == []
    assert of(2) == ["`roles.worker.memory` is 2 MiB, less than its process takes; did you mean 2 GiB?"]
    assert of(200, 2) == [
        "`roles.worker.memory` is 200 MiB, less than its process takes; give it 256 MiB or more",
        "`am.memory` is 2 MiB, less than its process takes; did you mean 2 GiB?",
    ]


def test_a_chief_without_room_for_the_processes_that_export_beside_it() -> None:
    def of(memory: str, workers: int = 1, every: Duration | None = OFTEN, chief: str = "") -> list[str]:
        roles: Any = {"worker": RoleSpec(memory=Memory.parse(memory), instances=workers), "ps": RoleSpec()}
        roles |= {"chief": RoleSpec(memory=Memory.parse(chief))} if chief else {}
        data = Data(train=("x",), label="click")
        return list(small_exporter(Job(name="x", roles=roles, data=data, export=Export(every=every))))

    assert of("1536m") == of("1 GiB", every=None) == of("1 GiB", chief="2 GiB") == []
    assert of("2") == [], "`small_containers` tells of it"
    (warning,) = of("1 GiB")
    assert warning == (
        "`roles.worker.memory` is 1 GiB, and holds the chief: by `export.every` processes that export run beside it and"
        " take up to 1 GiB, as the chief takes 512 MiB or more; YARN ends a container that takes more than it has. Give"
        " it 1536 MiB or more"
    )
    (warning,) = of("1 GiB", 8)
    assert warning.endswith("Give it 1536 MiB or more, or only the chief, with `roles.chief.memory: 1536`")
    (warning,) = of("4 GiB", 8, chief="1 GiB")
    assert warning.startswith("`roles.chief.memory` is 1 GiB")


def test_validate_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_job(tmp_path, monkeypatch)
    arguments = ["validate", str(tmp_path / "job.yaml"), "--var", "dt=1", "--runtime", "local", "--no-trial"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "  warning: about 1 step in all (1 sample," in shown
    assert "  warning: $.data.eval: `label` is 1 in each of the first 1 records of" in shown


@pytest.mark.parametrize("key", ["label", "sample_id"])
def test_an_output_that_is_a_feature_is_refused(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_job(tmp_path, monkeypatch)
    arguments = ["validate", str(tmp_path / "job.yaml"), "--var", "dt=1", "--set", f"data.{key}=x", "--no-trial"]
    assert run(arguments) == 3
    assert f"$.data.{key}: `x` is a feature of the schema" in capsys.readouterr().err
