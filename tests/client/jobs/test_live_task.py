"""`afo exec`, `stacks`, `kill TASK` and `top` against an Application Master that says what a test tells it to say."""

import json
from collections.abc import Iterator

import pytest

from afo.errors import NotFound, PermissionDenied, UsageError
from afo.job.paths import JobPaths
from afo.protocol.input_wait import InputWait
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.rpc.client import AmAddress, write_address
from afo.rpc.server import RpcServer
from afo_client.cli.main import run
from afo_client.jobs.live_task import TaskName, parse_task
from afo_client.jobs.task_rates import rates
from afo_client.jobs.view import JobView, TaskView

JOB = "local_1_0001"
WORKER = m.TaskId(role="worker", index=0, attempt=0)


class Master:
    """Answers each order with `reply` at the second question about it; the workers do 100 samples between two looks."""

    def __init__(self, paths: JobPaths, secret: str) -> None:
        self.orders: list[m.OrderRequest] = []
        self.reply = m.OrderStatusReply(state="done", code=0, output="")
        self.asked = self.looks = 0
        handlers = {"GiveOrder": self._give, "OrderStatus": self._status_of, "Status": self._status}
        self._server = RpcServer(handlers, secret, "127.0.0.1")
        self._server.start()
        write_address(paths.address, AmAddress(self._server.address, 1))

    def stop(self) -> None:
        self._server.stop(0)

    def _give(self, request: m.OrderRequest) -> m.Message:
        if request.user != "ann":
            raise PermissionDenied(f"only ann, whose job this is, gives orders to its tasks, not {request.user}")
        if request.index > 0:
            raise NotFound("the job has no task worker:1; it has worker:0")
        self.orders.append(request)
        return m.OrderReply(order=len(self.orders))

    def _status_of(self, request: m.OrderStatusRequest) -> m.Message:
        self.asked += 1
        return self.reply if self.asked > 1 else m.OrderStatusReply(state="waiting")

    def _status(self, request: m.StatusRequest) -> m.Message:
        self.looks += 1
        done = 100 * self.looks
        progress = Progress(
            phase="training", step=done, samples=10 * done, step_s=done, input_wait=InputWait(files=done / 4)
        )
        task = m.TaskStatus(
            task=WORKER, state="registered", host="h1", progress=progress, usage=m.Usage(rss=1 << 20, cpu_s=done)
        )
        return m.StatusReply(
            job_id=JOB, name="my \x1b[2Jjob", state="TRAINING", generation=1, message="", tasks=(task,), step=done,
            samples=done, samples_per_s=1.0, input_wait=0.0, loss=None, metrics={}, splits_done=0, splits_total=1,
            started=1.0,
        )  # fmt: skip


@pytest.fixture
def master(played_job: tuple[JobPaths, str]) -> Iterator[Master]:
    master = Master(*played_job)
    yield master
    master.stop()


def test_a_command_its_output_and_its_code(master: Master, capsys: pytest.CaptureFixture[str]) -> None:
    master.reply = m.OrderStatusReply(state="done", code=3, output="one\n\x1b[2Jtwo\n")
    assert run(["exec", "worker:0", "--", "ls", "-l", "--", "$x"]) == 3
    assert capsys.readouterr().out == "one\ntwo\n"
    assert master.orders == [
        m.OrderRequest(user="ann", kind="exec", role="worker", index=0, argv=("ls", "-l", "--", "$x"))
    ]
    assert run(["exec", "--json", JOB, "chief", "true"]) == 3
    assert json.loads(capsys.readouterr().out)["output"] == "one\n\x1b[2Jtwo\n"
    assert (master.orders[1].role, master.orders[1].argv) == ("chief", ("true",))
    master.reply = m.OrderStatusReply(state="done", code=-9, truncated=True)
    assert run(["exec", "worker:0", "true"]) == 137
    assert "more than is kept" in capsys.readouterr().err


def test_what_could_not_be_done_says_why(master: Master, capsys: pytest.CaptureFixture[str]) -> None:
    master.reply = m.OrderStatusReply(state="failed", output="no process of worker:0/0 runs at present")
    for words in (["exec", "worker:0", "--", "true"], ["stacks", "worker:0"], ["kill", JOB, "worker:0"]):
        assert run(words) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "error: worker:0: no process of worker:0/0 runs" in captured.err


def test_stacks_and_kill(master: Master, capsys: pytest.CaptureFixture[str]) -> None:
    master.reply = m.OrderStatusReply(state="done", output='File "a.py", line 1')
    assert run(["stacks", JOB, "worker:0"]) == 0
    assert capsys.readouterr().out == 'File "a.py", line 1\n'
    assert run(["kill", "worker:0", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "worker:0"
    assert [order.kind for order in master.orders] == ["stacks", "kill"]


def test_profile(master: Master, capsys: pytest.CaptureFixture[str]) -> None:
    master.reply = m.OrderStatusReply(state="done", output="hdfs://a/summaries/profile-worker_0-1")
    assert run(["profile", "worker:0", "--seconds", "2.5"]) == 0
    assert capsys.readouterr().out == "hdfs://a/summaries/profile-worker_0-1\n"
    assert (master.orders[0].kind, master.orders[0].argv) == ("profile", ("2.5",))
    assert run(["profile", "worker:0", "--seconds", "31"]) == 2
    assert "0.1<=x<=30" in capsys.readouterr().err


def test_refusals(master: Master, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["stacks", "worker:1"]) == 5
    assert "it has worker:0" in capsys.readouterr().err
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    assert run(["stacks", "worker:0"]) == 4
    assert "not bob" in capsys.readouterr().err
    assert master.orders == []


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["exec", "worker:0"], "nothing to run"),
        (["exec", "worker:0", "--"], "nothing to run"),
        (["exec", "ps", "--", "true"], "worker:0"),
        (["stacks"], "no task was named"),
        (["stacks", JOB], "no task was named"),
        (["stacks", "am"], "'am' is no task"),
        (["kill", "ps"], "'ps' is no task"),
        (["kill", JOB, "worker0"], "'worker0' is no task"),
    ],
)
def test_tasks_that_are_none(master: Master, capsys: pytest.CaptureFixture[str], words: list[str], part: str) -> None:
    assert run(words) == 2
    assert part in capsys.readouterr().err
    assert master.orders == []


def test_parse_task() -> None:
    assert [str(parse_task(text)) for text in ("ps:12", "chief", "evaluator:0")] == ["ps:12", "chief:0", "evaluator:0"]
    assert parse_task("worker:3") == TaskName("worker", 3)
    with pytest.raises(UsageError):
        parse_task("worker:-1")


def test_top(master: Master, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--json", "-n", "2", "--interval", "0.2"]) == 0
    pictures = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    task = pictures[1]["tasks"][0]
    assert (task["task"], task["step"], task["input_wait"]) == ("worker:0", 300, 0.25)
    assert task["samples_per_s"] == pytest.approx(10 * task["steps_per_s"])
    assert 0 < task["cores"] == task["steps_per_s"]
    assert run(["top", "--interval", "0.2"]) == 0
    text = capsys.readouterr().out
    assert "TRAINING · containers 1/1" in text
    assert "\x1b" not in text


def view(**fields: object) -> JobView:
    return JobView(job_id=JOB, tasks=(TaskView(task=WORKER, phase="training", **fields),))  # type: ignore[arg-type]


def test_rates_are_those_between_the_looks() -> None:
    before = view(step=10, samples=1000, step_s=5.0, input_wait_s=1.0, cpu_s=20.0)
    rate = rates(before, view(step=30, samples=3000, step_s=9.0, input_wait_s=2.0, cpu_s=26.0), 4.0)[0]
    assert (rate.steps_per_s, rate.samples_per_s, rate.input_wait, rate.cores) == (5.0, 500.0, 0.25, 1.5)


def test_an_evaluator_makes_no_steps() -> None:
    task = m.TaskId(role="evaluator", index=0, attempt=0)
    before, now = (
        JobView(job_id=JOB, tasks=(TaskView(task=task, phase="evaluating", step=step, samples=step * 10),))
        for step in (10, 30)
    )
    rate = rates(before, now, 4.0)[0]
    assert (rate.steps_per_s, rate.samples_per_s) == (None, 50.0)


def test_a_process_that_started_anew_has_no_rate_yet() -> None:
    before = view(step=10, samples=1000, step_s=5.0, cpu_s=20.0)
    rate = rates(before, view(step=1, samples=100, step_s=0.1, cpu_s=1.0), 4.0)[0]
    assert (rate.steps_per_s, rate.samples_per_s, rate.input_wait, rate.cores) == (None, None, None, None)
    assert rates(JobView(job_id=JOB), view(step=1), 4.0)[0].steps_per_s is None
