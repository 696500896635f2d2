"""Connections that never say a word, to both ports of an Application Master, from somebody without the job's secret."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import yaml

import live_job
from afo.events import types as ev
from afo.rpc.client import read_address
from live_job import LiveJob

#: Of the job's one task: at work until a file appears.
PROGRAM = """
import sys, time
from pathlib import Path

while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
"""
#: As many connections as are asked for and its own limit allows, to ports by turns; what is closed is made anew.
STRANGER = """
import select, socket, sys
from itertools import cycle
from afo.process import descriptors

def connection(port):
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(("127.0.0.1", port))
    return made

descriptors.raise_limit()
number, *ports = map(int, sys.argv[1:])
number = min(number, descriptors.for_connections())
held = {made.fileno(): (made, port) for port, _ in zip(cycle(ports), range(number)) for made in [connection(port)]}
print(len(held), flush=True)
poll = select.poll()
poll.register(0)
for each in held:
    poll.register(each, select.POLLIN | select.POLLHUP | select.POLLERR)
while True:
    ready = [each for each, _ in poll.poll()]
    if 0 in ready:
        break
    for each in ready:
        poll.unregister(each)
        made, port = held.pop(each)
        made.close()
        again = connection(port)
        held[again.fileno()] = again, port
        poll.register(again, select.POLLIN | select.POLLHUP | select.POLLERR)
    select.select([], [], [], 0.2)
"""


@contextmanager
def silent_connections(number: int, *addresses: str) -> Iterator[None]:
    """They are open, or wait to be taken, meanwhile."""
    ports = [address.rpartition(":")[2] for address in addresses]
    command = [sys.executable, "-c", STRANGER, str(number), *ports]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        assert int(stranger.stdout.readline()) > 200
        yield
        assert stranger.poll() is None, "it went on to the end"
        stranger.communicate()  # the end of its stdin


def metrics(job: LiveJob) -> str:
    with urllib.request.urlopen(f"http://{job.events(ev.AmStarted)[-1].metrics}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveJob]:
    """A program of one task, which ends once there is a file `go`. No process of the job may have 256 files open."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    monkeypatch.setattr(live_job, "AFO", ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *live_job.AFO])
    (tmp_path / "program.py").write_text(PROGRAM)
    spec = {"name": "quiet", "program": "program.py", "args": [str(tmp_path / "go")], "roles": {"worker": {}}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(spec))
    submitted = LiveJob.submit(tmp_path / "job.yaml", str(tmp_path / "jobs"), "--runtime", "local")
    try:
        yield submitted
    finally:
        live_job.afo("kill", submitted.id, "--yes")
        submitted.wait_for_no_process()


def test_a_job_goes_on_while_strangers_take_all_connections(job: LiveJob, tmp_path: Path) -> None:
    job.wait(lambda: bool(job.events(ev.TaskRegistered)), "the task registered")
    job.wait(lambda: bool(running(job)), "the program runs")
    started, master = job.events(ev.AmStarted)[-1], job.master()
    with silent_connections(1000, read_address(job.paths.address).address, started.metrics):
        job.wait(lambda: master.num_fds() > 60, "connections taken")
        job.kill(running(job)[0])
        job.wait(lambda: bool(job.events(ev.ProcessEnded)), "its end in the journal")
        assert 'afo_tasks{role="worker"' in metrics(job)
    assert 'afo_tasks{role="worker"' in metrics(job)
    (tmp_path / "go").touch()
    assert job.verdict().state == "SUCCEEDED", job.story()
    assert job.events(ev.AmStarted) == [started], "one start of the Application Master"


def running(job: LiveJob) -> list[psutil.Process]:
    """The program's process."""
    children = job.child("worker", 0).children(recursive=True)
    return [process for process in children if any(word.endswith("program.py") for word in process.cmdline())]
