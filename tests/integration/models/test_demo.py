"""The demo reaches nearly what can be reached, and its data tells a good model from a poor one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afo.events import types as ev
from live_job import LiveJob, afo

pytestmark = pytest.mark.tensorflow

JOB = Path(__file__).parents[3] / "conf" / "jobs" / "demo.yaml"
LINEAR = ("model.parts=wide", "model.wide.crosses=[]")
FEW_BUCKETS = ("model.embedding.hash_buckets=1000", "model.wide.cross_buckets=1000")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the demo keeps its data set; jobs and secrets lie beside it."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFO_STATE_DIR", str(folder / "state"))
        patch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
        yield folder


def demo(folder: Path, *settings: str) -> dict[str, Any]:
    """Run `afo demo` with the job file's values replaced; its JSON object."""
    options = [word for setting in settings for word in ("--set", setting)]
    done = afo("demo", "--dir", str(folder / "demo"), "--job", str(JOB), "--json", *options, timeout=580)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def full(folder: Path) -> dict[str, Any]:
    """The demo as it is."""
    return demo(folder)


def test_wide_and_deep_comes_within_a_hundredth_of_the_best_reachable(folder: Path, full: dict[str, Any]) -> None:
    reached, best = full["verdict"]["metrics"]["auc"], full["best"]["auc"]
    print(f"\nAUC reached {reached:.4f}, best reachable {best:.4f}")
    assert best - 0.01 <= reached < best + 0.002
    assert full["verdict"]["samples"] == full["best"]["train_records"]
    last = LiveJob(full["job_id"], str(folder / "jobs")).events(ev.Sample)[-1]
    assert (last.samples, last.progress) == (full["best"]["train_records"], 1)


def test_each_record_is_recounted_and_a_file_that_changed_is_not(folder: Path, full: dict[str, Any]) -> None:
    done = afo("check", full["job_id"], "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["records"], found["not_acknowledged"]) == (full["best"]["train_records"], 0)
    assert found["recounted_splits"] > 1
    assert found["problems"] == []
    (file, *_) = sorted((folder / "demo").rglob("train/part-*"))
    held = file.read_bytes()
    file.write_bytes(held[:-1])
    try:
        refused = afo("check", full["job_id"])
    finally:
        file.write_bytes(held)
    assert refused.returncode != 0
    assert f"{file} has {len(held) - 1:,} bytes and had {len(held):,}" in refused.stderr


def test_a_second_run_trains_nothing_and_says_the_same(folder: Path, full: dict[str, Any]) -> None:
    again = demo(folder)
    assert again["job_id"] == full["job_id"]
    assert again["verdict"] == full["verdict"]


@pytest.mark.slow
def test_linear_alone_and_few_buckets_stay_behind(folder: Path, full: dict[str, Any]) -> None:
    best = full["best"]["auc"]
    linear = demo(folder, *LINEAR)["verdict"]["metrics"]["auc"]
    few = demo(folder, *FEW_BUCKETS)["verdict"]["metrics"]["auc"]
    print(f"\nbest reachable {best:.4f}, linear alone {linear:.4f}, 1,000 hash buckets {few:.4f}")
    assert linear <= best - 0.03
    assert few <= full["verdict"]["metrics"]["auc"] - 0.01
