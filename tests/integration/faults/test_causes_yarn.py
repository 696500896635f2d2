"""Ends that only a cluster brings about: jobs of small programs on real YARN."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from afo import storage
from afo.events import types as ev
from afo.failures.causes import WAITS
from afo.site.config import user_name
from afo.yarn.submission import CHILD_TEMPLATE
from afo_client.hadoop import Cluster
from live_job import LiveJob, afo
from yarn_view import YarnView

pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.timeout(900)]

#: Done as soon as there is a file.
PROGRAM = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.1)\n"
Submit = Callable[..., LiveJob]


@pytest.fixture
def submit(hadoop: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    """Submits a job of the program above; it is done when `tmp_path / name` is there."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    for name in ("AFO_JOBS_ROOT", "AFO_CONF_DIR", "AFO_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "program.py").write_text(PROGRAM)
    jobs: list[LiveJob] = []
    root = f"{hadoop.hdfs_uri}/user/{user_name()}/.afo/jobs"

    def start(name: str, worker: dict[str, Any], **keys: Any) -> LiveJob:
        job = {"name": name, "program": "program.py", "args": [str(tmp_path / name)], "roles": {"worker": worker},
               "am": {"memory": "640 MiB"}, **keys}  # fmt: skip
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(job))
        jobs.append(LiveJob.submit(path, root, "--runtime", "yarn"))
        return jobs[-1]

    yield start
    for job in jobs:  # where the test failed: others use the cluster as well
        if not storage.exists(job.paths.verdict):
            afo("kill", job.id)


def ends(job: LiveJob) -> list[str]:
    """Causes, in their order."""
    return [event.cause for event in job.events(ev.TaskEnded)]


def registered(job: LiveJob) -> list[ev.TaskRegistered]:
    """Attempts that came so far as to run."""
    return job.events(ev.TaskRegistered)


def begun(job: LiveJob) -> LiveJob:
    """Waits for the first."""
    job.wait(lambda: bool(registered(job)), "its worker is there")
    return job


def test_a_container_that_cannot_be_launched_and_a_host_that_is_avoided(
    submit: Submit, hadoop: Cluster, tmp_path: Path
) -> None:
    """What the other node would have to fetch has changed since the job was submitted."""
    job = begun(submit("moved", {"memory": "512 MiB"}))
    (first,) = registered(job)
    (template,) = storage.glob(f"{hadoop.hdfs_uri}/user/{user_name()}/.skein/{job.id}/*/{CHILD_TEMPLATE}")
    touch(template.url)
    view = YarnView(job.id)
    here = view.node_of(first.container)
    with view.closed_to_new_containers(here):
        job.kill(job.child("worker", 0))
        job.wait(lambda: "bad_host" in ends(job), "its other host is avoided")
    # Heartbeats of nodes and AM have one period: on an idle cluster YARN may name the same node for minutes.
    with view.closed_to_new_containers(view.other_node(here)):
        job.wait(lambda: len(registered(job)) == 2, "it is back where it was")
    assert registered(job)[1].host == first.host
    (tmp_path / "moved").touch()
    assert job.verdict().state == "SUCCEEDED", job.story()
    assert ends(job)[:4] == ["container_lost", "launch_failed", "launch_failed", "bad_host"], job.story()
    failed, refused = job.events(ev.TaskEnded)[1], job.events(ev.TaskEnded)[3]
    assert CHILD_TEMPLATE in failed.message
    assert "changed" in failed.message
    assert "failed more than 1 tasks" in refused.message
    assert first.host not in refused.message


def touch(url: str) -> None:
    """The same content with a later time."""
    content = storage.read_bytes(url)
    storage.delete(url)
    storage.write_bytes(url, content)


def test_a_request_without_an_answer(submit: Submit, tmp_path: Path) -> None:
    """What another job leaves of each node is less than a container needs."""
    other = submit("full", {"instances": 2, "memory": "3 GiB"})
    other.wait(lambda: len(registered(other)) == 2, "it has its containers")
    job = submit("unanswered", {"memory": "5 GiB"}, timeouts={"allocate": "65s"})
    verdict = job.verdict()
    assert (verdict.state, verdict.cause) == ("FAILED", "allocation_timeout"), job.story()
    assert ends(job) == ["request_unanswered", "ended_with_job"], job.story()
    assert "no container for worker:0 within 1m5s (`timeouts.allocate`)" in verdict.diagnostics
    (tmp_path / "full").touch()
    assert other.verdict().state == "SUCCEEDED", other.story()


def test_two_jobs_that_hold_half_of_the_cluster_each(submit: Submit, tmp_path: Path) -> None:
    """Of the four containers that there is room for each wants three, and its queue entitles it to two."""
    gang = {"instances": 3, "memory": "2432 MiB"}
    with ThreadPoolExecutor(2) as pool:
        jobs = list(
            pool.map(
                lambda queue: submit(queue, gang, queue=queue, timeouts={"gang": "10s"}), ("default", "ads")
            )
        )  # fmt: skip
    for job in jobs:
        job.wait(lambda: any("gang_released" in ends(each) for each in jobs), "one gives way")
    for queue in ("default", "ads"):
        (tmp_path / queue).touch()
    for job in jobs:
        verdict = job.verdict()
        assert verdict.state == "SUCCEEDED", job.story()
        # A container that is taken back for the other queue before all are there is no restart of the user's.
        assert set(ends(job)) <= {"succeeded", "preempted", *WAITS}, job.story()
