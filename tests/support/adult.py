"""Census income (Adult) in HDFS, as `afo data convert` makes it, and what its files hold."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from afo.data.example import decode
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import read_records
from afo.events import types as ev
from click_records import splitmix64
from live_job import LiveJob, acknowledged, afo

REPOSITORY = Path(__file__).parents[2]
JOB_FILE = REPOSITORY / "conf" / "jobs" / "adult-yarn.yaml"
SCHEMA = REPOSITORY / "conf" / "schemas" / "adult.yaml"
TRAIN_FILES, TRAIN_RECORDS, TEST_RECORDS = 8, 32_561, 16_281
COLUMNS = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,gender,"
    "capital_gain,capital_loss,hours_per_week,native_country,income"
)


@dataclass(frozen=True)
class AdultData:
    """Where the records lie, and where jobs on this cluster do."""

    url: str
    jobs_root: str

    @property
    def options(self) -> tuple[str, ...]:
        """Makes conf/jobs/adult-yarn.yaml read these records."""
        return ("--var", f"data={self.url}")

    def acks(self) -> list[tuple[int, int]]:
        """Count and xor of hashed sample ids of each training file, in the order of their rows."""
        return [_ack(split.url) for split in find_splits([f"{self.url}/train/*.tfrecord"])]


def source() -> Path:
    """The directory of adult.data and adult.test. Skips without it, but fails in continuous integration."""
    named = os.environ.get("AFO_TEST_DATA")
    folder = Path(named) / "adult" if named else REPOSITORY.parent / "shared" / "data" / "adult"
    if not (folder / "adult.data").is_file():
        reason = f"the Adult data set is not in {folder}; set AFO_TEST_DATA to the directory that holds adult/"
        if os.environ.get("CI"):
            pytest.fail(f"continuous integration must train on it: {reason}")
        pytest.skip(reason)
    return folder


def convert(folder: Path, url: str) -> None:
    """Both parts as TFRecord files under `url`, by the command that the documentation names."""
    rest = ["--schema", str(SCHEMA), "--columns", COLUMNS, "--strip", "--missing", "?"]
    train = ["--out", f"{url}/train", "--files", str(TRAIN_FILES), "--positive", ">50K"]
    test = ["--out", f"{url}/test", "--files", "2", "--positive", ">50K.", "--skip-lines", "1"]
    for name, options in (("adult.data", train), ("adult.test", test)):
        done = afo("data", "convert", str(folder / name), *rest, *options)
        assert done.returncode == 0, done.stderr


def assert_every_sample_once(job: LiveJob, acks: list[tuple[int, int]], epochs: int) -> None:
    """Each (file, epoch) was acknowledged with the file's own count and xor, and the final model holds them."""
    assert acknowledged(job) == {(row, epoch): ack for row, ack in enumerate(acks) for epoch in range(epochs)}
    final = [event for event in job.events(ev.CheckpointWritten) if event.final][-1]
    assert sorted(final.positions) == [(row, epochs - 1, *ack) for row, ack in enumerate(acks)]


def _ack(url: str) -> tuple[int, int]:
    count, xor = 0, 0
    for record in read_records(url):
        (identity,) = decode(record)["sample_id"]
        count, xor = count + 1, xor ^ splitmix64(int(identity))
    return count, xor
