"""A job with `security.tunnel`: TensorFlow's servers are reached by its own tasks alone, whom no fault keeps out."""

import os
import signal
import socket
from collections.abc import Iterator

import psutil
import pytest
import yaml

from afo import storage
from afo.events import types as ev
from afo.rpc import wire
from afo.site.config import load_config, user_name
from afo.site.user_state import UserState
from afo_child.network.tunnel import INNER, Tunnel
from click_records import SCHEMA, write_files
from live_job import LiveJob, afo

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(400)]

#: With which a client of HTTP/2 begins (RFC 9113, 3.4), its SETTINGS frame included; a server answers with its own.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS = 4
FILES = 2


@pytest.fixture(scope="module", params=["local", pytest.param("yarn", marks=[pytest.mark.hadoop, pytest.mark.slow])])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveJob]:
    """Two parameter servers and two workers that train until they are killed."""
    folder = tmp_path_factory.mktemp("tunnel")
    place = root = str(folder)
    if request.param == "yarn":
        place = request.getfixturevalue("hadoop").hdfs_uri + "/tunnel"
        root = place.replace("/tunnel", f"/user/{user_name()}/.afo")
    write_files(folder / "train", FILES, 1000)
    for file in (folder / "train").iterdir() if place != root else ():
        storage.upload(str(file), f"{place}/train/{file.name}")
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    spec = {
        "name": "tunnel",
        "roles": {"ps": {"instances": 2, "memory": "1 GiB"}, "worker": {"instances": 2, "memory": "1536 MiB"}},
        "data": {"schema": "schema.yaml", "train": [f"{place}/train/*"], "batch_size": 32, "epochs": 100_000},
        "model": {"hidden_units": [8], "embedding": {"dim": 4}},
        "checkpoint": {"every": "5s"},
        "security": {"tunnel": True},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(spec))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFO_STATE_DIR", str(folder / "state"))
        patch.setenv("AFO_JOBS_ROOT", f"{root}/jobs")
        running = LiveJob.submit(folder / "job.yaml", f"{root}/jobs", "--runtime", request.param)
        try:
            running.wait(lambda: running.splits_done() >= 2, "two files acknowledged")
            yield running
        finally:
            afo("kill", running.id, "--yes")
            running.wait_for_no_process()
            if request.param == "yarn":
                running.wait_for_application_end()


def trainers(job: LiveJob) -> list[psutil.Process]:
    """The processes of TensorFlow."""
    return [job.trainer(role, index) for role in ("ps", "worker") for index in range(2)]


def servers(job: LiveJob) -> tuple[str, ...]:
    """Addresses of the parameter servers, as all tasks are told them."""
    return job.events(ev.GenerationStarted)[-1].ps


def greeted(caller: socket.socket) -> bytes:
    """What a server says to a client of HTTP/2."""
    with caller:
        caller.sendall(PREFACE)
        try:
            return caller.recv(100)
        except OSError:
            return b""


def connections(process: psutil.Process) -> list[tuple[str, tuple[str, int] | None]]:
    """The own address and the other end of each; there is none of a port that listens."""
    found = process.net_connections(kind="tcp")
    plain = [
        [(str(end.ip).removeprefix("::ffff:"), end.port) for end in (each.laddr, each.raddr) if end] for each in found
    ]
    return [(ends[0][0], ends[1] if len(ends) > 1 else None) for ends in plain]


def test_tensorflow_speaks_and_listens_behind_the_tunnel_alone(job: LiveJob) -> None:
    children = [job.child(role, index) for role in ("ps", "worker") for index in range(2)]
    held = [each.laddr for child in children for each in child.net_connections(kind="tcp") if not each.raddr]
    entrances = {(place.ip, place.port) for place in held if place.ip != INNER}
    assert len(entrances) == len(children)
    for process in trainers(job):
        found = connections(process)
        assert {own for own, other in found if other is None} == {INNER}, "where it listens"
        others = {other for _, other in found if other is not None}
        assert not others & entrances
        assert INNER in {host for host, _ in others}


def test_a_stranger_is_not_answered(job: LiveJob) -> None:
    for address in servers(job):
        host, _, port = address.partition(":")
        assert SETTINGS not in greeted(socket.create_connection((host, int(port)), timeout=20))[3:4]


@pytest.mark.parametrize("ours", [True, False])
def test_who_holds_the_secret_comes_to_tensorflow_s_server(job: LiveJob, ours: bool) -> None:
    secret = (UserState(load_config().state_dir).secret(job.id) if ours else "") or wire.new_secret()
    tunnel = Tunnel(secret, "127.0.0.1")
    try:
        host, _, port = tunnel.proxy.partition(":")
        caller = socket.create_connection((host, int(port)), timeout=20)
        caller.sendall(f"CONNECT {servers(job)[0]} HTTP/1.0\r\n\r\n".encode())
        answer = caller.recv(1000)
        assert (b" 200 " in answer) is ours
        assert (SETTINGS in greeted(caller)[3:4]) is ours
    finally:
        tunnel.close()


@pytest.mark.parametrize(("role", "generations"), [("worker", 0), pytest.param("ps", 1, marks=pytest.mark.slow)])
def test_a_process_that_dies_comes_back_behind_it(job: LiveJob, role: str, generations: int) -> None:
    before = job.events(ev.GenerationStarted)[-1].generation
    ends = len(job.events(ev.ProcessEnded)) + len(job.events(ev.TaskEnded))
    os.kill(job.trainer(role, 1).pid, signal.SIGKILL)
    job.wait(lambda: len(job.events(ev.ProcessEnded)) + len(job.events(ev.TaskEnded)) > ends, "its end")
    job.wait(lambda: job.events(ev.GenerationStarted)[-1].generation >= before + generations, "a generation")
    files = job.splits_done()
    job.wait(lambda: job.splits_done() >= files + 4, "further files")
    assert len({(event.split, event.count, event.xor) for event in job.events(ev.SplitDone)}) == FILES, "all of each"
