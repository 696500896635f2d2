"""The demo reaches nearly what can be reached, and its data tells a good model from a poor one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live_job import afo

pytestmark = pytest.mark.tensorflow

JOB = Path(__file__).parents[2] / "conf" / "jobs" / "demo.yaml"
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


def test_wide_and_deep_comes_within_a_hundredth_of_the_best_reachable(full: dict[str, Any]) -> None:
    reached, best = full["verdict"]["metrics"]["auc"], full["best"]["auc"]
    print(f"\nAUC reached {reached:.4f}, best reachable {best:.4f}")
    assert best - 0.01 <= reached < best + 0.002
    assert full["verdict"]["samples"] == full["best"]["train_records"]


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
