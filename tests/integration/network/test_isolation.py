"""What somebody without the job's secret can do to a running job: at each call, port and file of it."""

import ipaddress
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import pytest
import yaml

from afo.events import types as ev
from afo.rpc import tls, wire
from afo.rpc.client import read_address
from afo.rpc.messages import Empty
from click_records import SCHEMA, write_files
from live_job import LiveJob, afo

pytestmark = pytest.mark.tensorflow

#: Debian's and Red Hat's `nobody`.
NOBODY = 65534
#: Reads a file as the process behind a port of TensorFlow's sees it.
READS_THERE = """
import sys, tensorflow as tf
address, path = sys.argv[1:]
tf.config.experimental_connect_to_host(address, job_name="ps")
with tf.device("/job:ps/task:0"):
    print(tf.io.read_file(path).numpy().decode())
"""
#: Says which of the paths on stdin can be opened or listed.
OPENS = """
import os, sys
for path in sys.stdin.read().splitlines():
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
    except OSError:
        continue
    print(path)
"""


#: Opens so many connections as it can, says how many, and keeps them, silent, until its stdin ends.
CONNECTS = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
host, _, port = sys.argv[1].rpartition(":")
kept = []
try:
    for _ in range(int(sys.argv[2])):
        kept.append(socket.socket())
        kept[-1].setblocking(False)  # a port that is slow to take them is no reason to wait
        kept[-1].connect_ex((host, int(port)))
except OSError:
    pass
print(len(kept), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A directory that everybody may enter: what is shown shall not be owed to the one above it."""
    with tempfile.TemporaryDirectory(prefix="afo-isolation-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def job(folder: Path) -> Iterator[LiveJob]:
    """A job with two parameter servers that trains until it is killed."""
    write_files(folder / "train", 2, 1000)
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    spec = {
        "name": "isolation",
        "roles": {"ps": {"instances": 2, "memory": "1 GiB"}, "worker": {"memory": "1536 MiB"}},
        "data": {"schema": "schema.yaml", "train": ["train/*"], "batch_size": 32, "epochs": 100_000},
        "model": {"hidden_units": [8], "embedding": {"dim": 4}},
        "checkpoint": {"every": "5s"},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(spec))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFO_STATE_DIR", str(folder / "state"))
        patch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
        patch.delenv("HADOOP_CONF_DIR", raising=False)
        running = LiveJob.submit(folder / "job.yaml", str(folder / "jobs"), "--runtime", "local")
        try:
            running.wait(lambda: bool(running.events(ev.CheckpointWritten)), "a checkpoint")
            yield running
        finally:
            afo("kill", running.id, "--yes")
            running.wait_for_no_process()


def listening(job: LiveJob) -> dict[str, list[tuple[str, int]]]:
    """Program → where its processes listen, of all processes of the job."""
    found: dict[str, list[tuple[str, int]]] = {}
    for process in job.processes():
        words = process.cmdline()
        places = found.setdefault(words[words.index("-m") + 1], [])
        connections = process.net_connections(kind="inet")
        places += [tuple(each.laddr) for each in connections if each.status == psutil.CONN_LISTEN]
    return found


def port_of(job: LiveJob, role: str, index: int) -> int:
    """Where a task's TensorFlow listens."""
    connections = job.trainer(role, index).net_connections(kind="inet")
    (port,) = [each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN]
    return int(port)


def secret_of(job: LiveJob) -> str:
    return Path(job.paths.dir, "am", "secret").read_text()


@pytest.mark.slow
def test_a_job_goes_on_while_strangers_keep_connections_open(job: LiveJob) -> None:
    started = job.events(ev.AmStarted)
    calls, metrics = ([subprocess.Popen([sys.executable, "-c", CONNECTS, each, str(number)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True) for _ in range(2)]
                      for each, number in ((started[0].address, 9_990), (started[0].metrics, 200)))  # fmt: skip
    strangers = [*calls, *metrics]
    try:
        opened = [int(each.stdout.readline()) for each in strangers if each.stdout]
        assert sum(opened) > 10_000 or sum(opened) > resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2
        master = job.master()
        job.wait(lambda: master.num_fds() > 200, "connections taken")
        assert master.num_fds() < 1000, "each would cost the Application Master memory, too"
        written = len(job.events(ev.SplitDone))
        job.wait(lambda: len(job.events(ev.SplitDone)) > written + 3, "files acknowledged meanwhile")
        with urllib.request.urlopen(f"http://{started[0].metrics}/metrics", timeout=30) as answer:
            assert b"afo_job_step" in answer.read()
    finally:
        for each in strangers:
            each.communicate(timeout=60)
    assert job.events(ev.AmStarted) == started, "the Application Master did not begin again"
    job.wait(lambda: job.status() is not None, "an answer of the Application Master")
    with urllib.request.urlopen(f"http://{started[0].metrics}/metrics", timeout=30) as answer:
        assert b"afo_job_step" in answer.read()


def test_every_port_of_a_job_is_one_of_these(job: LiveJob) -> None:
    """A Child listens nowhere: it calls the Application Master, and nobody calls it."""
    found = listening(job)
    started = job.events(ev.AmStarted)[-1]
    ports = {int(address.rpartition(":")[2]) for address in (started.address, started.metrics)}
    assert {port for _, port in found.pop("afo_am")} == ports
    assert len(found.pop("afo.train")) == 3, "two parameter servers, and the worker from which they fetch tensors"
    assert found == {"afo_am.supervisor": [], "afo_am.runtime.local_container": [], "afo_child": []}


def test_every_port_of_a_local_job_is_closed_to_other_machines(job: LiveJob) -> None:
    places = [place for found in listening(job).values() for place in found]
    assert {address.removeprefix("::ffff:") for address, _ in places} == {"127.0.0.1"}
    for other in {"127.0.0.2", *addresses_of_this_machine()}:
        for _, port in places:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, port), timeout=10)
    for _, port in places:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()


def addresses_of_this_machine() -> set[str]:
    """Those by which other machines reach it."""
    families = (socket.AF_INET, socket.AF_INET6)
    found = [each for network in psutil.net_if_addrs().values() for each in network if each.family in families]
    addresses = {each.address.partition("%")[0] for each in found}
    return {each for each in addresses if not (ip := ipaddress.ip_address(each)).is_loopback and not ip.is_link_local}


@pytest.mark.parametrize("method", wire.METHODS)
def test_no_call_is_answered_without_the_secret(job: LiveJob, method: str) -> None:
    address = read_address(job.paths.address).address
    of_another_job = grpc.secure_channel(address, tls.channel_credentials(wire.new_secret()), tls.OPTIONS)
    for channel in (grpc.insecure_channel(address), of_another_job):
        with channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{wire.SERVICE}/{method}")(wire.encode(Empty()), timeout=10)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert job.state() == "TRAINING"


def test_the_metrics_tell_no_secret(job: LiveJob) -> None:
    told = urllib.request.urlopen(f"http://{job.events(ev.AmStarted)[-1].metrics}/metrics", timeout=10).read().decode()
    assert "afo_job_step" in told
    assert secret_of(job) not in told


def test_another_user_of_the_machine_opens_nothing(job: LiveJob, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    mine = [str(path) for top in (job.paths.dir, folder / "state") for path in (Path(top), *Path(top).rglob("*"))]
    script = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n{OPENS}"
    given = "\n".join([*mine, str(folder / "job.yaml")])
    done = subprocess.run(
        [sys.executable, "-c", script], input=given, capture_output=True, text=True, timeout=60, check=True
    )
    assert len(mine) > 40
    assert done.stdout.splitlines() == [str(folder / "job.yaml")], "what everybody may read, and nothing of the job"


def test_what_holds_the_secret_is_private_by_itself(job: LiveJob) -> None:
    """The job's directory keeps others out of all of it; these are for its owner alone wherever they are copied to."""
    top = Path(job.paths.dir)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (top, *top.rglob("*"))}
    assert modes[top] == 0o700
    own = {"am", "child-config.json", "containers"}
    inside = [path for path in modes if path.parent == top and path.name in own]
    inside += [path for path in modes if path.parent == top / "am" or path.parent.parent == top / "containers"]
    inside += [path for path in modes if path.name == "task.json"]
    assert len(inside) > 15
    assert {path: oct(modes[path]) for path in inside if modes[path] & 0o077} == {}


def test_the_secret_is_in_two_files_and_nowhere_else(job: LiveJob, folder: Path) -> None:
    secret = secret_of(job)
    files = [path for path in folder.rglob("*") if path.is_file()]
    holders = [str(path.relative_to(folder)) for path in files if secret.encode() in path.read_bytes()]
    assert sorted(holders) == [f"jobs/{job.id}/am/secret", f"state/secrets/{job.id}"]
    processes = [f"{process.cmdline()} {process.environ()}" for process in job.processes()]
    assert not [words for words in processes if secret in words]


def test_who_reaches_a_port_of_tensorflow_reads_what_its_user_can(job: LiveJob) -> None:
    """Not as it should be: TensorFlow asks nobody for anything, so everybody on this machine is served."""
    address = f"127.0.0.1:{port_of(job, 'ps', 0)}"
    done = subprocess.run(
        [sys.executable, "-c", READS_THERE, address, f"{job.paths.dir}/am/secret"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == secret_of(job)
