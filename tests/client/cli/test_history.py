"""`afo history`: a real server process, started, found again, stopped."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from afo.formats import json_file
from afo.site.user_state import UserState
from afo_client.cli import history as history_verbs
from afo_client.cli.main import run
from afo_client.history.rest_client import HistoryApi
from afo_client.history.server_process import HistoryServer
from job_writer import DONE, FAILED, JobWriter
from refusing_proxy import refusing_proxy

ENTRY = "from afo_client.cli.main import main; main()"


class History:
    """Runs `afo history …` with its own state."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AFO_", "HADOOP_"))}
        self._environment = {**kept, "AFO_STATE_DIR": str(self.state)}

    def set(self, name: str, value: str) -> None:
        """A variable of its environment."""
        self._environment[name] = value

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", ENTRY, "history", *arguments]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    run = History(tmp_path)
    yield run
    run("stop")


def test_start_status_stop(history: History) -> None:
    started = history("start", "--port", "0")
    assert started.returncode == 0, started.stderr
    address = started.stdout.strip()
    with urllib.request.urlopen(address, timeout=30) as page:
        assert "No jobs here yet" in page.read().decode()
        assert page.headers["Server"] is None
    again = history("start", "--port", "0")
    assert (again.returncode, again.stdout.strip()) == (0, address)
    found = json.loads(history("status", "--json").stdout)
    assert (found["address"], found["root"]) == (address, str(history.state / "jobs"))
    note = history.state / "history" / "server.json"
    assert note.stat().st_mode & 0o777 == 0o600
    assert history.state.stat().st_mode & 0o777 == 0o700
    assert history("stop").returncode == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=30)
    assert history("status").returncode == 5
    assert history("stop").returncode == 0


def test_signing_in(history: History, tmp_path: Path) -> None:
    assert history("login").returncode == 5
    address = history("start", "--port", "0").stdout.strip()
    token = history.state / "history" / "token"
    assert token.stat().st_mode & 0o777 == 0o600
    signed_in = history("login").stdout.strip()
    assert signed_in == f"{address}login?token={token.read_text()}"
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(signed_in, timeout=30) as page:
        assert "Sign out" in page.read().decode()
    with urllib.request.urlopen(address, timeout=30) as page:
        assert "Sign out" not in page.read().decode()
    server = psutil.Process(json.loads(history("status", "--json").stdout)["pid"])
    secret = token.read_text()
    assert secret not in " ".join(server.cmdline())
    assert secret not in (history.state / "history" / "server.log").read_text()
    history("stop")
    history("start", "--port", "0")
    assert token.read_text() != secret, "it ends with its server"


def test_jobs_are_listed_by_the_server(history: History) -> None:
    assert history("ls").returncode == 5
    root = str(history.state / "jobs")
    JobWriter(root, DONE, "feeds ctr").begin().end("SUCCEEDED", "succeeded", auc=0.75)
    JobWriter(root, FAILED, "search", user="bob", tags={"team": "x"}).begin().end("FAILED", "user_exception")
    address = history("start", "--port", "0").stdout.strip()
    found = history("ls", "ctr", "feeds")
    assert found.stdout.splitlines()[0].split()[:3] == ["JOB", "NAME", "USER"]
    assert [line.split()[0] for line in found.stdout.splitlines()[1:]] == [DONE]
    assert "0.7500" in found.stdout
    failed = history("ls", "--state", "failed", "--tag", "team=x", "--server", address, "--json")
    assert [job["job_id"] for job in json.loads(failed.stdout)["jobs"]] == [FAILED]
    assert "1 more" in history("ls", "-n", "1").stderr
    assert "no job is like that" in history("ls", "nothing").stderr
    wrong = history("ls", "--sort", "speed")
    assert wrong.returncode == 2
    assert "allowed is began, name" in wrong.stderr
    history("stop")
    gone = history("ls", "--server", address)
    assert gone.returncode == 6
    assert "does not answer" in gone.stderr
    assert history("ls", "--server", "nowhere").returncode == 6


def test_one_s_own_server_is_asked_directly(history: History) -> None:
    history("start", "--port", "0")
    with refusing_proxy() as proxy:
        for name, value in proxy.environment().items():
            history.set(name, value)
        listed = history("ls")
        assert listed.returncode == 0, listed.stderr
        assert proxy.visits() == []


@pytest.mark.parametrize("verb", ["status", "ls"])
def test_one_that_stands_still_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """It takes connections, as the kernel does for a process that was stopped, and is silent."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(history_verbs, "_STATUS_S", 0.1)
    monkeypatch.setattr(HistoryApi.check_answers, "__defaults__", (0.1,))
    UserState(tmp_path).make_token()
    me = psutil.Process()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        note = HistoryServer(pid=me.pid, born=me.create_time(), address=f"{address}/", root="", command=[])
        (tmp_path / "history" / "server.json").write_bytes(json_file.encode(note))
        assert run(["history", verb]) == 6
    told = capsys.readouterr()
    assert told.out == ""
    assert f"the history server at {address} does not answer: timed out" in told.err
    assert (f"it is process {me.pid}, which `afo history stop` ends" in told.err) is (verb == "status")


def test_which_directory_it_shows(history: History, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "afo-site.yaml").write_text(f"history:\n  directory: {tmp_path}/site\n")
    history.set("AFO_CONF_DIR", str(conf))
    for name, root in (("", "site"), ("AFO_HISTORY_DIR", "environment")):
        if name:
            history.set(name, f"{tmp_path}/{root}")
        history("start", "--port", "0")
        assert json.loads(history("status", "--json").stdout)["root"] == f"{tmp_path}/{root}"
        history("stop")


def test_a_port_that_is_taken_is_said(history: History, tmp_path: Path) -> None:
    port = history("start", "--port", "0").stdout.strip().rstrip("/").rpartition(":")[2]
    other = History(tmp_path / "other")
    refused = other("start", "--port", port)
    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert other("status").returncode == 5


def test_a_process_with_the_same_id_is_not_the_server(history: History) -> None:
    history("start", "--port", "0")
    note = history.state / "history" / "server.json"
    real = note.read_text()
    note.write_text(json.dumps({**json.loads(real), "pid": os.getpid()}))
    assert history("status").returncode == 5
    assert history("stop").returncode == 0
    note.write_text(real)
