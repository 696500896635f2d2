"""`afo scale` against an Application Master that says what a test tells it to say."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo.errors import ProtocolError, UsageError
from afo.events import event_log
from afo.events import types as ev
from afo.job.paths import JobPaths
from afo.rpc import messages as m
from afo.rpc.client import AmAddress, write_address
from afo.rpc.server import RpcServer
from afo.site.user_state import UserState
from afo_client.cli.main import run
from afo_client.cli.scale import split_words
from afo_client.jobs.view import JobView, ViewFold

JOB = "local_1_0001"
PLACE = "worker=9: `roles.worker.instances` of the job file allows 1 to 4"


class Master:
    """Wants 2 workers at first, and takes up to 4."""

    def __init__(self, paths: JobPaths, secret: str) -> None:
        self.wanted = 2
        self._server = RpcServer({"Scale": self._scale, "Status": self._status}, secret, "127.0.0.1")
        self._server.start()
        write_address(paths.address, AmAddress(self._server.address, 1))

    def stop(self) -> None:
        self._server.stop(0)

    def _scale(self, request: m.ScaleRequest) -> m.Message:
        assert request.user == "ann"
        if request.workers > 4:
            raise ProtocolError(PLACE)
        before, self.wanted = self.wanted, request.workers
        return m.ScaleReply(before=before)

    def _status(self, request: m.StatusRequest) -> m.Message:
        return m.StatusReply(
            job_id=JOB, name="", state="TRAINING", generation=1, message="", tasks=(), step=0, samples=0,
            samples_per_s=1.0, input_wait=0.0, loss=None, metrics={}, splits_done=0, splits_total=1, started=1.0,
        )  # fmt: skip


@pytest.fixture
def master(played_job: tuple[JobPaths, str]) -> Iterator[Master]:
    master = Master(*played_job)
    yield master
    master.stop()


def test_it_says_what_was_wanted_before(master: Master, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scale", JOB, "worker=3", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"api": "afo/v1", "application_id": JOB, "workers": 3, "before": 2}
    assert "3 workers wanted, 2 before" in said.err
    assert master.wanted == 3


def test_the_same_number_again_says_so(master: Master, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scale", "worker=2"]) == 0
    assert f"{JOB} has 2 workers wanted already; nothing changes" in capsys.readouterr().err


def test_what_the_job_file_does_not_allow_is_said_with_place_and_bounds(
    master: Master, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scale", JOB, "worker=9"]) == 2
    assert PLACE in capsys.readouterr().err
    assert master.wanted == 2


def test_who_does_not_hold_the_secret_may_not(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("afo_client.jobs.watch.JobWatch.look", lambda _: JobView(job_id=JOB, state="RUNNING"))
    UserState(tmp_path / "state").forget_secret(JOB)
    assert run(["scale", JOB, "worker=3"]) == 4
    assert "secret" in capsys.readouterr().err
    assert master.wanted == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("worker=",), "is no number of workers"),
        ((JOB, "worker=-1"), "is no number of workers"),
        ((JOB,), "is no number of workers"),
        ((JOB, "worker=2", "ps=3"), "is no number of workers"),
        (("ps=3",), "only workers can be scaled"),
    ],
)
def test_words_that_are_no_number_of_workers(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        split_words(words)


def test_a_worker_that_was_scaled_away_is_missed_by_nobody() -> None:
    tasks = [m.TaskId(role="worker", index=index, attempt=0) for index in range(3)]
    story: list[ev.AnyEvent] = [ev.ContainerRequested(task=task, memory=1, vcores=1) for task in tasks]
    story += [ev.ContainerRunning(task=task, handle="h", container="c", host="") for task in tasks]
    story.append(ev.TaskEnded(task=tasks[2], cause="scaled_away", code=0, message="ann wants 2 workers"))
    reader = ViewFold(JOB)
    reader.take(event_log.Record(seq=n, am_attempt=1, incarnation=1, time=1, event=e) for n, e in enumerate(story))
    assert reader.view.tasks[2].state == "scaled away"
    assert reader.view.containers == (2, 2)
    again = ev.ContainerRequested(task=m.TaskId(role="worker", index=2, attempt=1), memory=1, vcores=1)
    reader.take([event_log.Record(seq=9, am_attempt=1, incarnation=1, time=1, event=again)])
    assert reader.view.containers == (2, 3)
    assert reader.view.restarts == 0
