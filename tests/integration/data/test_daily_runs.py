"""A week of a daily job on YARN and HDFS: each day begins with the model of the day before."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import yaml

from afo import storage
from afo.data import model_metrics
from afo.data.example import decode
from afo.data.io.tfrecord import read_records
from afo.events import types as ev
from afo.site.config import user_name
from afo.trainable.served import export_info
from afo_client.hadoop import Cluster
from click_records import splitmix64
from daily_clicks import schema, spoil, write_day
from live_job import AFO, LiveJob, afo, submit_and_wait

pytestmark = pytest.mark.tensorflow

FILES, RECORDS = 3, 1500
BASE = ["user", "city", "liked", "age"]
WITH_DEVICE = [*BASE, "device"]
WITHOUT_LIKED = ["user", "city", "age", "device"]
ADAGRAD, ADAM = {"adagrad": {"learning_rate": 0.1}}, {"adam": {"learning_rate": 0.01}}


class Daily:
    """A daily job: its files are made in one directory, and lie where the job reads and writes, which may be HDFS."""

    def __init__(self, root: Path, url: str, runtime: str, jobs_root: str) -> None:
        self.root = root
        self.url = url
        self.runtime = runtime
        self.jobs_root = jobs_root

    def date(self, day: int) -> str:
        return f"2026-11-{day:02d}"

    def data(self, day: int) -> Path:
        """The day's files as they were made."""
        return self.root / "clicks" / self.date(day)

    def read_url(self, path: Path) -> str:
        """Where the job reads what was made there."""
        return storage.join(self.url, str(path.relative_to(self.root)))

    def write(self, day: int, **options: Any) -> None:
        """A day that is complete."""
        write_day(self.data(day), day, FILES, RECORDS, **options)
        self.publish(day)
        self.complete(day)

    def write_spoiled(self, day: int) -> dict[Path, set[int]]:
        """A complete day with damaged records: which, by file."""
        write_day(self.data(day), day, FILES, RECORDS)
        spoiled = {path: spoil(path, (7, 1033)) for path in sorted(self.data(day).glob("part-*"))[:2]}
        self.publish(day)
        self.complete(day)
        return spoiled

    def publish(self, day: int) -> None:
        """All files of a day but `_SUCCESS`."""
        for path in sorted(self.data(day).iterdir()):
            if self.read_url(path) != str(path):
                storage.upload(str(path), self.read_url(path))

    def complete(self, day: int) -> None:
        """What a job waits for."""
        storage.write_bytes(self.read_url(self.data(day) / "_SUCCESS"), b"")

    def job_file(self, features: list[str], deep: dict[str, Any]) -> str:
        """The job as it stands in somebody's repository on that day."""
        (self.root / "schema.yaml").write_text(schema(features).to_yaml())
        job = {
            "name": "clicks",
            "vars": {"dt": self.date(1), "at": self.url},
            "roles": {"ps": {"memory": "1 GiB"}, "worker": {"memory": "1 GiB"}, "evaluator": {}},
            "data": {
                "schema": "schema.yaml", "train": ["{{at}}/clicks/{{dt}}/part-*"],
                "eval": ["{{at}}/clicks/{{dt}}/eval-*"],
                "sample_id": "sample_id", "wait_for": "_SUCCESS", "batch_size": 64, "max_bad_records": 0.002,
                "shuffle": {"buffer": 1000},
            },
            "model": {"hidden_units": [8], "embedding": {"dim": 4}},
            "optimizer": {"deep": deep},
            "checkpoint": {
                "dir": "{{at}}/models/{{dt}}",
                "warm_start": {"sources": ["{{at}}/models/{{dt-1}}", "{{at}}/models/{{dt-2}}"], "missing": "fresh"},
            },
            "export": {
                "dir": "{{at}}/export",
                "require": {
                    "auc": ">=0.7", "auc_drop": "<=0.1", "calibration": "0.7..1.4", "coverage_drop": "<=0.1",
                },
            },
        }  # fmt: skip
        (self.root / "job.yaml").write_text(yaml.safe_dump(job))
        return str(self.root / "job.yaml")

    def submit(self, day: int, features: list[str], deep: dict[str, Any], *more: str) -> dict[str, Any]:
        options = ("--runtime", self.runtime, "--var", f"dt={self.date(day)}", *more)
        return submit_and_wait(self.job_file(features, deep), *options)

    def exported(self) -> dict[str, str]:
        """A hash of each file of the export."""
        files = files_below(f"{self.url}/export")
        return {url: hashlib.sha256(storage.read_bytes(url)).hexdigest() for url in files}


def files_below(url: str) -> list[str]:
    """All files of a directory and of those in it."""
    found = [files_below(each.url) if each.is_dir else [each.url] for each in storage.list_dir(url)]
    return [file for files in found for file in files]


@pytest.fixture
def daily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daily:
    """On this machine alone."""
    jobs = str(tmp_path / "jobs")
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", jobs)
    return Daily(tmp_path, str(tmp_path), "local", jobs)


@pytest.fixture
def daily_on_yarn(hadoop: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daily:
    """On the cluster of this session."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFO_JOBS_ROOT", raising=False)
    jobs = f"{hadoop.hdfs_uri}/user/{user_name()}/.afo/jobs"
    return Daily(tmp_path, f"{hadoop.hdfs_uri}/daily", "yarn", jobs)


def applied(path: Path, spoiled: set[int]) -> tuple[int, str]:
    """Count and xor that the lineage must have of a file, read from the file itself."""
    xor = count = 0
    for place, record in enumerate(read_records(str(path), "none", [])):
        xor ^= splitmix64(int(decode(record)["sample_id"][0]))
        count = place + 1
    assert count == RECORDS - len(spoiled)
    return count, f"{xor:016x}"


@pytest.mark.hadoop
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_week_of_daily_runs(daily_on_yarn: Daily) -> None:
    daily = daily_on_yarn
    daily.write(1)
    first = daily.submit(1, BASE, ADAGRAD)
    assert first["state"] == "SUCCEEDED", first
    assert any("no warm start" in note for note in first["notes"])

    daily.write(2)
    second = daily.submit(2, WITH_DEVICE, ADAGRAD)
    assert second["state"] == "SUCCEEDED", second
    [begun] = warm_started(second)
    assert f"models/{daily.date(1)}/{first['application_id']}/manifest-" in begun
    assert "made new: device: new (deep, wide, layer0/kernel)" in begun
    assert "dropped" not in begun
    assert second["step"] == 2 * first["step"]

    third = late_day(daily, 3)
    assert third["state"] == "SUCCEEDED", third

    daily.write(4)
    fourth = daily.submit(4, WITHOUT_LIKED, ADAM)
    assert fourth["state"] == "SUCCEEDED", fourth
    [begun] = warm_started(fourth)
    assert "dropped: liked: not in this model (deep, wide, layer0/kernel)" in begun
    assert "optimizer state of deep: was adagrad, is adam" in begun

    spoiled = daily.write_spoiled(5)
    fifth = daily.submit(5, WITHOUT_LIKED, ADAM)
    assert fifth["state"] == "SUCCEEDED", fifth
    before = daily.exported()

    daily.write(6, without_city=0.6)
    sixth = daily.submit(6, WITHOUT_LIKED, ADAM)
    assert (sixth["state"], sixth["cause"], sixth["exit_code"]) == ("FAILED", "quality_gate", 1), sixth
    assert "feature `city` was in 100.0% of the records and is in 4" in sixth["diagnostics"]
    assert daily.exported() == before, "the model of the day before still serves"

    daily.write(7)
    seventh = daily.submit(7, WITHOUT_LIKED, ADAM)
    assert seventh["state"] == "SUCCEEDED", seventh
    passed_over, begun = warm_started(seventh)
    assert f"{sixth['application_id']}: the quality gate refused it: " in passed_over
    assert f"models/{daily.date(5)}/{fifth['application_id']}/manifest-" in begun
    assert seventh["step"] > fifth["step"]

    runs = {7: seventh, 5: fifth, 4: fourth, 3: third, 2: second, 1: first}
    assert_lineage(daily, runs, spoiled)
    assert_scores(daily, seventh)


def warm_started(answer: dict[str, Any]) -> list[str]:
    return [note for note in answer["notes"] if note.startswith("warm start")]


def late_day(daily: Daily, day: int) -> dict[str, Any]:
    """The job is submitted at its hour; the day's data are complete only after that."""
    write_day(daily.data(day), day, FILES, RECORDS)
    daily.publish(day)
    command = [*AFO, "submit", daily.job_file(WITH_DEVICE, ADAGRAD), "--runtime", daily.runtime, "--wait", "--json"]
    with subprocess.Popen(
        [*command, "--var", f"dt={daily.date(day)}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            words = next(line for line in process.stderr if "waiting for" in line)
            assert f"clicks/{daily.date(day)}/_SUCCESS" in words
            daily.complete(day)
            output, _ = process.communicate(timeout=300)
        finally:
            process.kill()
    answer: dict[str, Any] = json.loads(output)
    return answer


def assert_lineage(daily: Daily, runs: dict[int, dict[str, Any]], spoiled: dict[Path, set[int]]) -> None:
    """What `afo` prints of the exported model is what lies in the files, day for day."""
    printed = json.loads(afo("lineage", f"{daily.url}/export", "--check", "--json").stdout)
    assert printed["changed"] == []
    jobs = [printed["lineage"]["own"], *printed["lineage"]["before"]["jobs"]]
    assert [job["job_id"] for job in jobs] == [answer["application_id"] for answer in runs.values()]
    for job, (day, answer) in zip(jobs, runs.items(), strict=True):
        assert job["step"] == answer["step"]
        paths = sorted(daily.data(day).glob("part-*"))
        expected = {
            daily.read_url(path): (path.stat().st_size, *applied(path, spoiled.get(path, set()))) for path in paths
        }
        assert {file["url"]: (file["size"], file["count"], file["xor"]) for file in job["files"]} == expected
    text = afo("lineage", f"{daily.url}/models/{daily.date(7)}").stdout
    assert all(daily.read_url(path) in text for day in runs for path in daily.data(day).glob("part-*"))


def assert_scores(daily: Daily, last: dict[str, Any]) -> None:
    """`afo predict` writes the scores whose AUC the evaluator found."""
    out, evaluation = f"{daily.url}/scores", daily.data(7) / "eval-00.tfrecord"
    done = afo("predict", last["application_id"], "--data", daily.read_url(evaluation), "--out", out)
    assert done.returncode == 0, done.stderr
    names = sorted(storage.name(each.url) for each in storage.list_dir(out))
    assert names == ["_SUCCESS", "_model.json", "part-00000.csv"]
    scores = dict(scored(storage.read_bytes(f"{out}/part-00000.csv").decode()))
    labels = dict(labelled(evaluation))
    assert scores.keys() == labels.keys()
    found = model_metrics.auc(np.array(list(labels.values())), np.array([scores[key] for key in labels]))
    assert found == pytest.approx(last["metrics"]["auc"], abs=1e-6)


def scored(text: str) -> Iterator[tuple[int, float]]:
    head, *lines = text.splitlines()
    assert head == "sample_id,probability"
    for line in lines:
        key, value = line.split(",")
        yield int(key), float(value)


def labelled(path: Path) -> Iterator[tuple[int, int]]:
    for record in read_records(str(path), "none", []):
        features = decode(record)
        yield int(features["sample_id"][0]), int(features["label"][0])


@pytest.mark.slow
def test_a_job_that_gets_no_better_stops_and_exports_its_best_checkpoint(daily: Daily) -> None:
    """With more epochs than anybody would wait for; beside it, a save on request and the next job's `max_steps`."""
    daily.write(1)
    job = daily.job_file(BASE, ADAGRAD)
    often = ("--set", "data.epochs=100000", "--set", "train.eval_every=1s", "--set", "checkpoint.every=1h")
    rule = "train.early_stop={metric: auc, patience: 2, min_delta: 0.5}"
    best = ("--set", rule, "--set", "export.checkpoint=best", "--set", "checkpoint.keep=1")
    live = LiveJob.submit(job, daily.jobs_root, "--runtime", daily.runtime, *often, *best)
    live.wait(lambda: bool(live.events(ev.VariablesReady)), "the training has begun")
    saved = afo("checkpoint", "now", live.id)
    assert saved.returncode == 0, saved.stderr
    assert "checkpoint" in [event.kind for event in live.events(ev.OrderGiven)]

    verdict = live.verdict()
    assert (verdict.state, verdict.diagnostics) == ("SUCCEEDED", "stopped early, as `train.early_stop` says")
    [stopped] = live.events(ev.StoppedEarly)
    measured = live.events(ev.Evaluated)
    assert (stopped.metric, stopped.evaluations) == ("auc", 2)
    assert stopped.best == measured[0].metrics["auc"], "no later one is better by 0.5"
    decided = live.events(ev.ExportDecided)[-1]
    chosen = max(measured, key=lambda event: event.metrics["auc"])
    assert decided.manifest == chosen.manifest
    assert export_info.read(f"{daily.url}/export").manifest == chosen.manifest
    listed = json.loads(afo("checkpoint", "ls", live.id, "--json").stdout)["checkpoints"]
    assert {each["manifest"] for each in listed} == {chosen.manifest, measured[-1].manifest}

    daily.write(2)
    second = daily.submit(2, BASE, ADAGRAD, "--set", "train.max_steps=7")
    assert (second["state"], second["diagnostics"]) == ("SUCCEEDED", "`train.max_steps` were made")
    assert second["step"] == verdict.step + 7


@pytest.mark.slow
def test_versions_leave_while_their_evaluation_and_the_mean_of_the_window_are_good(daily: Daily) -> None:
    daily.write(1)
    often = ("data.epochs=100000", "train.eval_every=1s", "checkpoint.every=1h", "export.every=1s")
    gate = ("export.require={auc: '>=0.7'}", "export.require_window=3")
    settings = [word for setting in (*often, *gate) for word in ("--set", setting)]
    live = LiveJob.submit(daily.job_file(BASE, ADAGRAD), daily.jobs_root, "--runtime", daily.runtime, *settings)
    live.wait(lambda: bool(live.events(ev.VersionExported)), "a version")
    killed = afo("kill", live.id)
    assert killed.returncode == 0, killed.stderr
    live.verdict()
    measured = [event for event in live.events(ev.Evaluated) if "auc" in event.metrics]
    bad = set()
    for place, event in enumerate(measured):
        window = [each.metrics["auc"] for each in measured[max(0, place - 2) : place + 1]]
        if min(event.metrics["auc"], fmean(window)) < 0.7:
            bad.add(event.manifest)
    assert {event.manifest for event in live.events(ev.VersionWithheld)} == bad
    for version in live.events(ev.VersionExported):
        assert version.manifest not in bad
        assert version.metrics in [event.metrics for event in measured if event.manifest == version.manifest]
        assert export_info.read(f"{daily.url}/export/{version.version}").manifest == version.manifest
