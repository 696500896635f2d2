"""`afo top`, `exec`, `stacks` and `kill TASK` on live tasks, on each runtime, for the job's owner alone."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from afo import storage
from afo.events import types as ev
from afo.formats.json_file import decode
from afo.protocol.profile_request import OPERATORS, STACKS, Operators
from afo.site.config import user_name
from afo_client import open_job
from click_records import SCHEMA, write_files
from live_job import AFO, LiveJob, afo

pytestmark = pytest.mark.tensorflow


@dataclass(frozen=True)
class Place:
    """Where the job file lies and where its data and jobs do."""

    folder: Path
    runtime: str
    url: str
    jobs_root: str

    def submit(self) -> LiveJob:
        """Always with the same key."""
        options = ("--runtime", self.runtime, "--idempotency-key", "of this test")
        return LiveJob.submit(self.folder / "job.yaml", self.jobs_root, *options)


@pytest.fixture(scope="module", params=["local", pytest.param("yarn", marks=[pytest.mark.hadoop, pytest.mark.slow])])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A directory for all tests of one runtime, and the settings of who submits there."""
    folder = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFO_STATE_DIR", str(folder / "state"))
        if request.param == "yarn":
            url = request.getfixturevalue("hadoop").hdfs_uri
            patch.delenv("AFO_JOBS_ROOT", raising=False)
            yield Place(folder, "yarn", f"{url}/live", f"{url}/user/{user_name()}/.afo/jobs")
        else:
            patch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
            patch.delenv("HADOOP_CONF_DIR", raising=False)
            yield Place(folder, "local", str(folder), str(folder / "jobs"))


@pytest.fixture(scope="module")
def job(place: Place) -> Iterator[LiveJob]:
    """A job with so many epochs that it trains until it is killed; one for all tests of a runtime."""
    folder = place.folder
    write_files(folder / "train", 4, 1000)
    if place.url != str(folder):
        for file in sorted((folder / "train").iterdir()):
            storage.upload(str(file), f"{place.url}/train/{file.name}")
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    spec = {
        "name": "live",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"instances": 2, "memory": "1536 MiB"}},
        "data": {"schema": "schema.yaml", "train": [f"{place.url}/train/*"], "batch_size": 32, "epochs": 100_000},
        "model": {"hidden_units": [8], "embedding": {"dim": 4}},
        "environment": {"variables": {"OF_THE_JOB": "yes"}},
        "on_end": [
            "python",
            "-c",
            f"import os; open({str(folder / 'ended')!r}, 'a').write(os.environ['AFO_JOB_STATE'])",
        ],
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(spec))
    running = place.submit()
    try:
        running.wait(lambda: running.splits_done() >= 2, "two files acknowledged")
        yield running
    finally:
        done = afo("kill", "--yes")
        running.wait_for_no_process()
        # YARN starts a second AM for a job that was killed; it must not run `on_end` again.
        if place.runtime == "yarn":
            running.wait_for_application_end()
    assert done.returncode == 0, done.stderr
    assert (folder / "ended").read_text() == "KILLED"


def as_other(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in another environment: as another user, or without the first one's secrets."""
    return subprocess.run(
        [*AFO, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def orders(job: LiveJob) -> set[str]:
    """The kinds that the event log names so far."""
    return {each.kind for each in job.events(ev.OrderGiven)}


def test_the_key_of_a_live_job_starts_no_other(place: Place, job: LiveJob) -> None:
    again = place.submit()
    assert again.id == job.id
    assert open_job(job.id).status().state == "TRAINING"


def test_top_shows_what_each_task_does(job: LiveJob) -> None:
    done = afo("top", "--json", "-n", "3", "--interval", "2")
    pictures = [json.loads(line) for line in done.stdout.splitlines()]
    tasks = {task["task"]: task for task in pictures[-1]["tasks"]}
    assert (len(pictures), set(tasks)) == (3, {"ps:0", "worker:0", "worker:1"}), done.stderr
    for name in ("worker:0", "worker:1"):
        assert tasks[name]["samples_per_s"] > 0, tasks
        assert 0 <= tasks[name]["input_wait"] <= 1
        assert tasks[name]["cores"] > 0
        assert tasks[name]["rss"] > 50e6
    assert "worker:1" in afo("top").stdout


def test_exec_runs_beside_the_task(job: LiveJob) -> None:
    done = afo("exec", "worker:1", "--", "sh", "-c", "echo $OF_THE_JOB; pwd; echo wrong >&2; exit 7")
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines()[0] == "yes"
    assert "wrong" in done.stdout
    assert Path(done.stdout.splitlines()[1]) == Path(job.trainer("worker", 1).cwd())
    assert afo("exec", job.id, "ps:0", "true").returncode == 0
    missing = afo("exec", "worker:7", "--", "true")
    assert missing.returncode == 5
    assert "worker:0" in missing.stderr
    assert "exec" in orders(job)


def test_a_profile_is_kept_with_the_job(job: LiveJob) -> None:
    for task in ("worker:1", "ps:0"):
        done = afo("profile", task, "--seconds", "2")
        assert done.returncode == 0, done.stderr
        place = done.stdout.strip()
        assert place.startswith(f"{job.paths.summaries}/profile-{task.replace(':', '_')}-")
        found = decode(storage.read_bytes(f"{place}/{OPERATORS}"), Operators, place)
        assert found.seconds >= 2
        assert (found.steps is None) == (task == "ps:0")
        if found.steps is not None:
            assert found.steps >= 2
            assert sum(each.calls for each in found.operators) > 100
            # TensorFlow leaves out what it holds for quick at that moment, of so small a model often a layer.
            assert {"AfoParseExample", "AfoPool"} <= {each.name for each in found.operators}
        assert "hread" in storage.read_bytes(f"{place}/{STACKS}").decode()
        assert storage.glob(f"{place}/plugins/profile/*/*.xplane.pb")
    assert "profile" in orders(job)


def test_two_workers_are_about_one_update_apart(job: LiveJob) -> None:
    told = lambda: [event.staleness for event in job.events(ev.Sample) if event.staleness is not None]  # noqa: E731
    # A worker that stands still within a step, for the orders above or for want of a core, counts for a while.
    job.wait(lambda: bool(told()) and 0.2 < told()[-1] < 5, "workers one update apart", 120)


def test_stacks_name_the_code(job: LiveJob) -> None:
    done = afo("stacks", "worker:0", "--json")
    assert done.returncode == 0, done.stderr
    assert "afo/train" in json.loads(done.stdout)["stacks"]
    assert "stacks" in orders(job)


@pytest.mark.parametrize(
    "words",
    [("exec", "worker:0", "--", "true"), ("stacks", "worker:0"), ("kill", "worker:0")],
    ids=lambda words: words[0],
)
def test_nobody_else_may(place: Place, job: LiveJob, tmp_path: Path, words: tuple[str, ...]) -> None:
    command = (words[0], job.id, *words[1:])
    pid = job.trainer("worker", 0).pid
    without = as_other(*command, AFO_STATE_DIR=str(tmp_path / "mallory"))
    assert (without.returncode, without.stdout) == (4, ""), without.stderr
    assert "secret" in without.stderr
    another = as_other(*command, HADOOP_USER_NAME="mallory", AFO_JOBS_ROOT=job.paths.root)
    assert another.returncode == 4, another.stderr
    # HDFS itself hides the job of somebody else; where files are open to all, the Application Master refuses.
    assert {"local": "not mallory", "yarn": "user=mallory, access="}[place.runtime] in another.stderr
    assert job.trainer("worker", 0).pid == pid
    assert not [order for order in job.events(ev.OrderGiven) if order.user == "mallory"]


@pytest.mark.slow
def test_a_task_that_is_killed_comes_back(job: LiveJob) -> None:
    refused = afo("kill", "worker:1")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    before = job.trainer("worker", 1).pid
    done = afo("kill", job.id, "worker:1")
    assert done.returncode == 0, done.stderr

    def trains_again() -> bool:
        again = [
            e for e in job.events(ev.TaskRegistered) if (e.task.role, e.task.index, e.task.attempt) == ("worker", 1, 1)
        ]
        status = job.status()
        tasks = {str(each.task): each for each in status.tasks} if status else {}
        progress = tasks["worker:1"].progress if again and "worker:1" in tasks else None
        return progress is not None and progress.samples > 0

    job.wait(trains_again, "worker:1 trains again", 120)
    assert job.trainer("worker", 1).pid != before
    assert "kill" in orders(job)
