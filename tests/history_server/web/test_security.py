"""What others may not do to a server without authentication, and to those who look at it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from afo import storage
from afo.errors import AfoError, SpecError, StorageError
from afo.events import types as ev
from afo.formats.plain_text import plain
from afo.protocol.export_gate import Check
from afo_history_server.store import nofollow_files
from afo_history_server.store.job_files import JobFiles
from afo_history_server.web.app import create_app
from afo_history_server.web.serve import listening
from damaged_files import broken
from job_writer import DONE, FAILED, JobWriter, task_id
from pages import browser

CANARY = "canary-7f3a"
#: Each stands where an address has a job id, a task, an attempt, a stream.
CLIMBS = (
    "..", "../..", "../../canary", "..%2f..%2fcanary", "%2e%2e%2f%2e%2e%2fcanary", "%252e%252e%252fcanary",
    "..;/canary",
    "..\\..\\canary", "..%5c..%5ccanary", "canary%00", "stderr%00.txt", "%2fetc%2fpasswd", "//etc/passwd",
    "//proc/self/environ", "/proc/self/root", "stderr%23", "#", "%3f", "*", "st*", "[s]tderr", "{stdout,stderr}", "~",
    "stderr%0a", "%0astderr", "0%0a", "worker_%D9%A1", "%EF%BC%8E%EF%BC%8E", "%E2%80%A5", "．．", "worker_0%2f..", ".",
    "%2e", "", " ", "stderr.", "STDERR", "worker_1234567", "-1", "file:///etc/passwd", f"{DONE}%0a", f"{DONE}%2f..",
    "local_%D9%A1_%D9%A2", "a" * 5000,
)  # fmt: skip
HARMLESS = ("", ".", "%2e", "..", "#", "%3f")


@pytest.fixture
def canary(done: JobWriter, root: str) -> JobWriter:
    """A secret beside the jobs, beside the job and beside its logs; the pages must show none of them."""
    for place in (f"{root}/../canary", f"{root}/canary", f"{done.paths.dir}/canary", f"{done.paths.logs}/canary",
                  f"{done.paths.logs}/worker_1/0/canary", f"{done.paths.logs}/worker_1/0/stdout.bak"):  # fmt: skip
        storage.write_bytes(place, CANARY.encode())
    return done


@pytest.mark.parametrize("climb", CLIMBS)
def test_no_name_leads_elsewhere(client: FlaskClient, canary: JobWriter, climb: str) -> None:
    for raw in (climb, quote(climb)):
        for address in (
            f"/jobs/{raw}", f"/jobs/{raw}/logs/worker_1/0/stderr", f"/jobs/{DONE}/logs/{raw}/0/stderr",
            f"/jobs/{DONE}/logs/worker_1/{raw}/stderr", f"/jobs/{DONE}/logs/worker_1/0/{raw}",
            f"/jobs/{DONE}/logs/worker_1/0/{raw}/download", f"/api/v1/jobs/{raw}x", f"/api/v1/jobs/{raw}/events",
            f"/static/{raw}", f"/{raw}/x",
        ):  # fmt: skip
            answer = client.get(address)
            assert CANARY not in answer.text
            assert "root:" not in answer.text
            # 200: the list of jobs or a job, where nothing of the name is left once a client has shortened the address.
            assert answer.status_code in (400, 403, 404) or climb in HARMLESS, address


def test_links_that_users_make_are_not_followed(client: FlaskClient, done: JobWriter, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(CANARY)
    os.makedirs(f"{done.paths.logs}/ps_0/0")
    os.symlink(tmp_path / "secret", f"{done.paths.logs}/ps_0/0/stderr")
    os.symlink(tmp_path, f"{done.paths.logs}/ps_1")
    os.symlink("../../worker_1/0/stderr", f"{done.paths.logs}/ps_0/0/stdout")
    for address in (f"/jobs/{DONE}/logs/ps_0/0/stderr", f"/jobs/{DONE}/logs/ps_0/0/stderr/download"):
        answer = client.get(address)
        assert answer.status_code == 403
        assert CANARY not in answer.text
    assert client.get(f"/jobs/{DONE}/logs/ps_1/0/stderr").status_code == 403
    assert client.get(f"/jobs/{DONE}/logs/ps_0/0/stdout").status_code == 403


@pytest.mark.parametrize("place", ["logs", "events", "summaries", "job.json", "verdict.json"])
def test_a_job_shows_nothing_of_another_by_a_link(
    client: FlaskClient, done: JobWriter, failed: JobWriter, place: str
) -> None:
    done.write_log("worker_0", 0, "stderr", CANARY.encode())
    profile = f"{done.paths.summaries}/profile-worker_0-3"
    storage.write_bytes(f"{profile}/plugins/profile/1/x.xplane.pb", CANARY.encode())
    done.log(ev.KillRequested(user=CANARY, reason=CANARY))
    for document in ("job.json", "verdict.json"):
        file = Path(done.paths.dir, document)
        file.write_bytes(
            file.read_bytes().replace(b"feeds-ctr", CANARY.encode()).replace(b'"succeeded"', f'"{CANARY}"'.encode())
        )
    storage.delete(f"{failed.paths.dir}/{place}", recursive=True)
    os.symlink(f"../{DONE}/{place}", f"{failed.paths.dir}/{place}")
    seen = [client.get(f"/jobs/{FAILED}{page}").text for page in (
        "", "/events", "/settings", "/data", "/logs/worker_0/0/stderr", "/logs/worker_0/0/stderr/download",
        "/logs/worker_0/0/stderr/search?q=canary", "/profiles/profile-worker_0-3/download",
    )]  # fmt: skip
    seen += [client.get(f"/api/v1/jobs/{FAILED}{page}").text for page in ("", "/events", "/files")]
    seen.append(json.dumps([job for job in client.get("/api/v1/jobs").json["jobs"] if job["job_id"] == FAILED]))
    assert [text for text in seen if CANARY in text] == []


def test_what_is_exchanged_for_a_link_while_it_is_looked_at_is_not_followed(
    done: JobWriter, failed: JobWriter, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if each name had been found to be no link just before it was made one."""
    done.write_log("worker_0", 0, "stderr", CANARY.encode())
    shutil.rmtree(failed.paths.dir)
    os.symlink(done.paths.dir, failed.paths.dir)
    files, log = JobFiles(root), f"{failed.paths.logs}/worker_0/0/stderr"
    monkeypatch.setattr(nofollow_files, "_refuse_link", lambda url, folder, name: None)
    for call in (files.open, files.info, files.delete, files.list_dir, lambda url: files.create(url, b"x")):
        with pytest.raises(AfoError):
            call(log)
    files.delete(failed.paths.dir)
    assert not os.path.lexists(failed.paths.dir)
    assert files.read(f"{done.paths.logs}/worker_0/0/stderr", 100) == CANARY.encode()


def test_an_error_after_the_opening_names_what_and_where(done: JobWriter, root: str) -> None:
    log = f"{done.paths.logs}/worker_0/0/stderr"
    done.write_log("worker_0", 0, "stderr", b"data")
    with (
        broken(JobFiles(root).open(log)) as file,
        pytest.raises(StorageError, match=f"cannot read {log}: Bad file"),
    ):
        file.read()


def test_the_root_itself_may_be_a_link(done: JobWriter, root: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    client = browser(create_app(f"file://{tmp_path}/link/"))
    assert client.get(f"/jobs/{DONE}/logs/worker_1/0/stderr").status_code == 200
    assert [job["job_id"] for job in client.get("/api/v1/jobs").json["jobs"]] == [DONE]


def test_a_pipe_or_directory_in_the_place_of_a_file_does_not_hang(client: FlaskClient, done: JobWriter) -> None:
    os.makedirs(f"{done.paths.logs}/ps_0/0/stderr")
    os.mkfifo(f"{done.paths.logs}/ps_0/0/stdout")
    os.mkfifo(done.paths.events_segment(2, 1))
    for address in (f"/jobs/{DONE}/logs/ps_0/0/stderr", f"/jobs/{DONE}/logs/ps_0/0/stdout/download", f"/jobs/{DONE}"):
        assert client.get(address).status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:18089", "127.0.0.1.evil.example", "localhost@evil.example", "", "[::1]:80",
             "0.0.0.0", "127.0.0.1:80:80", "localhost:x"]
)  # fmt: skip
def test_another_host_name_is_refused(client: FlaskClient, done: JobWriter, host: str) -> None:
    for address in ("/", "/api/v1/jobs", "/metrics", f"/jobs/{DONE}"):
        answer = client.get(address, headers={"Host": host})
        assert answer.status_code in (400, 403)
        assert "feeds-ctr" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:18089"])
def test_this_machine_is_answered(client: FlaskClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(("host", "port"), [("localhost", ""), ("LocalHost:9999", ":9999")])
def test_the_name_of_tensorboard_leads_to_the_pages_and_shows_none(
    client: FlaskClient, done: JobWriter, host: str, port: str
) -> None:
    for address in ("/", f"/jobs/{DONE}?a=b", "/api/v1/jobs", "/metrics"):
        answer = client.get(address, headers={"Host": host})
        assert answer.status_code == 302
        assert answer.location == f"//127.0.0.1{port}{address}"
        assert "feeds-ctr" not in answer.text
    assert client.post("/", headers={"Host": host}).status_code == 403
    with client.get("/static/afo.css", headers={"Host": host}) as answer:
        assert answer.status_code == 200


@pytest.mark.parametrize("address", ["/a%0d%0aX-Forged:1", "/?q=%0d%0aX-Forged:1", "/%ff%0a", "/a%3Fb%23c", "/é?é"])
def test_an_address_with_ends_of_lines_forges_no_header(client: FlaskClient, address: str) -> None:
    answer = client.get(address, headers={"Host": "localhost"})
    assert (answer.status_code, "X-Forged" in answer.headers) == (302, False)
    assert answer.location.startswith("//127.0.0.1/")
    assert client.get(f"http:{answer.location}").status_code == client.get(address).status_code


def test_every_answer_carries_the_headers(client: FlaskClient, failed: JobWriter) -> None:
    for address in ("/", "/nothing", "/api/v1/jobs", "/metrics", f"/jobs/{FAILED}", "/static/afo.css", "/?page=x"):
        with client.get(address) as answer:
            headers = answer.headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")


POSTS = ("signing_in.sign_in", "signing_in.sign_out", "actions.")


def test_every_route_only_reads_or_only_acts(client: FlaskClient, root: str) -> None:
    rules = list(create_app(root).url_map.iter_rules())
    assert len(rules) >= 9
    for rule in rules:
        assert rule.methods is not None
        acts = {"POST", "OPTIONS"} if rule.endpoint.startswith(POSTS) else {"GET", "HEAD", "OPTIONS"}
        assert rule.methods <= acts or rule.rule.startswith("/tb/")
    for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE"):
        answer = client.open("/", method=method)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


HOSTILE = (
    "<script>alert(1)</script>",
    '"onmouseover="alert(1)',
    "<img src=x onerror=alert(1)>",
    "{{ 7*7 }}",
    "\x1b]8;;x\x07",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_job_says_is_text(client: FlaskClient, writer: Callable[..., JobWriter], text: str) -> None:
    worker = task_id("worker")
    job = writer(DONE, text, user=text, queue=text, tags={text: text}).begin().task(worker, host=text)
    job.log(
        ev.CheckpointWritten(task=worker, generation=1, step=1, manifest=text, positions=(), final=False),
        ev.Evaluated(task=worker, step=1, manifest=text, metrics={text: 0.5}, final=False),
        ev.GenerationEnded(generation=1, reason=text, manifest=text),
        ev.TaskEnded(task=worker, cause=text, code=1, message=text, tail=text),
    ).end("FAILED", text, text, first=worker)
    for address in ("/", f"/jobs/{DONE}"):
        page = client.get(address).text
        assert re.findall("<script[^>]*>", page) == ['<script src="/static/afo.js" defer>']
        assert "<img" not in page
        assert '"onmouseover' not in page
        assert "\x1b" not in page
        assert " 49 " not in page
    assert client.get(f"/api/v1/jobs/{DONE}").content_type == "application/json"


STEERS = "a\u202eb\x1b[2Jc\x9bd\x07\u2066e\u200f"


def test_nothing_that_a_job_says_steers_a_page(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    """Every text of every event and of the job's file, on every page of it."""
    worker = task_id("worker")
    job = writer(DONE, STEERS, user=STEERS, queue=STEERS, tags={STEERS: STEERS}).begin().task(worker, host=STEERS)
    job.log(
        ev.CheckpointWritten(task=worker, generation=1, step=1, manifest=STEERS, positions=(), final=False),
        ev.Evaluated(task=worker, step=1, manifest=STEERS, metrics={STEERS: 0.5}, final=False),
        ev.VersionWithheld(step=1, manifest=STEERS, checks=(Check(STEERS, False, STEERS, STEERS),)),
        ev.ExportDecided(manifest=STEERS, step=1, allowed=False, checks=(Check(STEERS, False, STEERS),)),
        ev.GenerationEnded(generation=1, reason=STEERS, manifest=STEERS),
        ev.TaskEnded(task=worker, cause=STEERS, code=1, message=STEERS, tail=STEERS),
    ).end("FAILED", STEERS, STEERS, first=worker)
    job.write_log("worker_0", 0, "stderr", f"{STEERS} Error\n".encode() * 3)
    storage.write_bytes(f"{job.paths.root}/{FAILED}/job.json", f'{{"job": "{STEERS}"}}'.encode())
    for address in (
        "/", "/fleet?since=2025-01-01&by=user", f"/compare?job={DONE}", f"/jobs/{FAILED}", f"/jobs/{DONE}",
        f"/jobs/{DONE}/data", f"/jobs/{DONE}/settings", f"/jobs/{DONE}/events", f"/?q={quote(STEERS)}",
        f"/jobs/{DONE}/logs/worker_0/0/stderr", f"/jobs/{DONE}/logs/worker_0/0/stderr/search?q=Error",
        f"/jobs/{DONE}/logs/worker_0/0/stderr/search?q={quote(STEERS)}", f"/?state={quote(STEERS)}",
        f"/{quote(STEERS)}",
    ):  # fmt: skip
        page = client.get(address).text
        assert plain(page) == page, address


def test_the_program_refuses_another_address_without_authentication(root: str, tmp_path: Path) -> None:
    (tmp_path / "afo-site.yaml").write_text("history:\n  listen: 0.0.0.0\n")
    command = [sys.executable, "-m", "afo_history_server", "--root", root, "--port", "0"]
    environment = os.environ | {"AFO_CONF_DIR": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert ended.returncode == SpecError.exit_code
    assert f"{tmp_path}/afo-site.yaml:2" in ended.stderr
    assert "beyond this machine need `auth: token` or `auth: proxy`" in ended.stderr


def test_a_request_that_comes_a_byte_at_a_time_holds_its_connection_no_longer(client: FlaskClient) -> None:
    server = listening(client.application, "127.0.0.1", 0)
    try:
        with closing(socket.create_connection(("127.0.0.1", server.effective_port))) as slow:
            server.handle_accept()
            (channel,) = server.active_channels.values()
            for byte in (b"G", b"E", b"T"):
                slow.sendall(byte)
                channel.handle_read()
                begun = channel.last_activity = channel.last_activity - 20
            server.maintenance(begun + 59)
            assert not channel.will_close
            server.maintenance(time.time() + 1)
            assert channel.will_close, "it began more than 60 seconds ago"
            channel.handle_close()
    finally:
        server.close()
        server.task_dispatcher.shutdown()


def test_the_server_imports_no_tensorflow() -> None:
    code = "import sys, afo_history_server.web.serve; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
