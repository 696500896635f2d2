"""TensorBoard through the server: real ones, started by a look, few at a time, under a name of their own."""

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil
import pytest
from flask import Flask, Response, request
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from afo.errors import AfoError
from afo.tensorboard import program as tensorboard_program
from afo.tensorboard.summary_folder import SummaryFolder
from afo_history_server.maintenance import tensorboards
from afo_history_server.maintenance.tensorboards import LIMIT, Shown, TensorBoards
from afo_history_server.web import proxy
from job_writer import DONE, RUNNING, JobWriter
from pages import browser

SUMMARIES = """
import sys
import tensorflow as tf
with tf.summary.create_file_writer(sys.argv[1]).as_default():
    for step in range(3):
        tf.summary.scalar("train/loss", 0.5 - 0.1 * step, step=step)
"""


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def opened(client: FlaskClient, *jobs: str) -> str:
    """Follow the link to a TensorBoard and wait for it; its address below the name of TensorBoards."""
    answer = client.get("/tensorboard?" + "&".join(f"job={job}" for job in jobs))
    assert answer.status_code == 302, answer.text
    assert answer.location.startswith("//localhost:18089/tb/")
    address = urlsplit(answer.location).path
    first = client.get(address, base_url=TENSORBOARD)
    assert (first.status_code, first.headers["Refresh"]) == (202, "1")
    assert "TensorBoard is starting" in first.text
    assert client.get(f"{address}data/runs", base_url=TENSORBOARD).status_code == 503
    until(lambda: client.get(address, base_url=TENSORBOARD).status_code != 202)
    return address


TENSORBOARD = "http://localhost:18089"


@pytest.fixture
def summaries(done: JobWriter, running: JobWriter) -> None:
    """Of two jobs."""
    for job in (done, running):
        folder = f"{job.paths.summaries}/worker_0"
        subprocess.run([sys.executable, "-c", SUMMARIES, folder], check=True, capture_output=True)


@pytest.mark.tensorflow
@pytest.mark.usefixtures("summaries")
def test_two_jobs_in_one_tensorboard_through_the_proxy(client: FlaskClient) -> None:
    address = opened(client, DONE, RUNNING)

    def ask(path: str, **options: object) -> object:
        answer = client.open(f"{address}{path}", base_url=TENSORBOARD, **options)
        assert answer.status_code == 200, answer.text
        return answer.json

    runs = [f"feeds-ctr {DONE}/worker_0", f"still at it {RUNNING}/worker_0"]
    until(lambda: ask("data/runs") == runs)
    until(lambda: set(ask("data/plugin/timeseries/tags")["scalars"]["runTagInfo"]) == set(runs))
    wanted = json.dumps([{"plugin": "scalars", "tag": "train/loss"}])
    series = ask(
        "data/plugin/timeseries/timeSeries", method="POST", data={"requests": wanted},
        headers={"X-XSRF-Protected": "1"},
    )  # fmt: skip
    points = series[0]["runToSeries"][runs[0]]
    assert [(point["step"], round(point["value"], 2)) for point in points] == [(0, 0.5), (1, 0.4), (2, 0.3)]

    page = client.get(address, base_url=TENSORBOARD)
    assert "<title>TensorBoard</title>" in page.text
    assert "script-src 'self'" in page.headers["Content-Security-Policy"], "its own, not ours"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    script = re.search(r'src="([^"]*\.js[^"]*)"', page.text)
    assert script
    assert len(client.get(f"{address}{script[1]}", base_url=TENSORBOARD).data) > 100_000


HOSTILE = """
import sys
import tensorflow as tf
job, outside = sys.argv[1:]
for folder in (f"{job}/worker_0", f"{outside}/run"):
    with tf.summary.create_file_writer(folder).as_default():
        tf.summary.scalar("train/loss", 0.5, step=1)
tf.raw_ops.SaveV2(prefix=f"{outside}/model", tensor_names=["weights"], shape_and_slices=[""], tensors=[[[7.0, 7.5]]])
"""
#: Each names a file outside, once as it is and once by a link.
CONFIG = """
model_checkpoint_path: "{outside}/model"
embeddings {{ tensor_name: "weights" metadata_path: "{outside}/secret" bookmarks_path: "secret" }}
embeddings {{ tensor_name: "t" tensor_path: "{outside}/secret" sprite {{ image_path: "{outside}/secret" }} }}
"""


@pytest.mark.tensorflow
def test_what_lies_beside_event_files_leads_to_no_file_of_the_server_s_user(
    client: FlaskClient, done: JobWriter, tmp_path: Path
) -> None:
    summaries, outside = Path(done.paths.summaries), tmp_path / "outside"
    subprocess.run([sys.executable, "-c", HOSTILE, summaries, outside], check=True, capture_output=True)
    (outside / "secret").write_text("root:x:0:0\n")
    for place in ("", "worker_0", "worker_0/plugins/org_tensorflow_tensorboard_projector"):
        (summaries / place).mkdir(parents=True, exist_ok=True)
        (summaries / place / "projector_config.pbtxt").write_text(CONFIG.format(outside=outside))
        (summaries / place / "secret").symlink_to(outside / "secret")
    (summaries / "linked").symlink_to(outside / "run", target_is_directory=True)
    address, run = opened(client, DONE), f"feeds-ctr {DONE}/worker_0"

    def ask(path: str) -> TestResponse:
        return client.get(f"{address}{path}", base_url=TENSORBOARD)

    until(lambda: ask("data/runs").json == [run])
    for where in (run, run.rpartition("/")[0], "."):
        for kind in ("info", "tensor", "metadata", "bookmarks", "sprite_image"):
            for name in ("weights", "t"):
                answer = ask(f"data/plugin/projector/{kind}?{urlencode({'run': where, 'name': name})}")
                assert (answer.status_code, "root:" in answer.text) == (404, False)
    assert set(ask("data/plugins_listing").json) == tensorboard_program.PLUGINS
    assert ask("data/runs").json == [run], "what a link leads to is not shown"


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 400), (f"job={DONE}&jobs=1", 400), ("job=no-job", 404), (f"job={RUNNING}", 404),
     ("&".join(f"job=local_1_{number}" for number in range(21)), 400)],
)  # fmt: skip
def test_only_jobs_that_are_there(client: FlaskClient, done: JobWriter, query: str, status: int) -> None:
    assert client.get(f"/tensorboard?{query}").status_code == status


def test_an_address_that_somebody_made_up_starts_nothing(client: FlaskClient, done: JobWriter) -> None:
    for path in (f"/tb/{'0' * 32}/{DONE}/", f"/tb/é/{DONE}/", "/tb/x/y/z"):
        answer = client.get(path, base_url=TENSORBOARD)
        assert answer.status_code == 404
    assert threading.active_count() == 1


def test_one_that_cannot_start_says_why_and_can_be_tried_again(
    client: FlaskClient, done: JobWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'no room <b>left</b>' >&2\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setattr(tensorboards.sys, "executable", str(program))
    path = urlsplit(client.get(f"/tensorboard?job={DONE}").location).path
    for _ in range(2):
        until(lambda: client.get(path, base_url=TENSORBOARD).status_code == 503)
        page = client.get(path, base_url=TENSORBOARD)
        assert page.status_code == 202, "the one that has ended was shown once"
        until(lambda: "no room &lt;b&gt;left&lt;/b&gt;" in client.get(path, base_url=TENSORBOARD).text)


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> Iterator[TensorBoards]:
    """With a clock that is moved by hand, and processes that only sleep."""
    clock = [0.0]
    monkeypatch.setattr(tensorboards, "_LOOK_S", 0.02)
    boards = TensorBoards(lambda: clock[0])
    boards.clock = clock  # type: ignore[attr-defined]
    yield boards
    boards.close()


def use(boards: TensorBoards, key: str, folder: Path) -> tensorboards.Board:
    board = boards.use(key, f"/tb/{key}", lambda: (Shown(key, str(folder)),))
    until(lambda: board.port or board.ended)
    return board


@pytest.mark.tensorflow
def test_the_one_that_was_unused_longest_makes_room_and_nothing_is_left(boards: TensorBoards, tmp_path: Path) -> None:
    started = [use(boards, f"board-{number}", tmp_path) for number in range(LIMIT)]
    processes = [psutil.Process(board.pid) for board in started]
    boards.clock[0] = 100.0  # type: ignore[attr-defined]
    use(boards, "board-0", tmp_path)
    use(boards, "one more", tmp_path)
    until(lambda: not processes[1].is_running())
    assert "at most 4" in started[1].ended
    assert [process.is_running() for process in processes] == [True, False, True, True]
    assert boards.count() == LIMIT

    boards.clock[0] += tensorboards.IDLE_S + 101.0  # type: ignore[attr-defined]
    until(lambda: boards.count() == 0)
    assert "nobody looked at it for 30 minutes" in started[0].ended
    until(lambda: not any(process.is_running() for process in processes))


class Coming:
    """Takes the place of `tensorboard`, of one that never listens; knows how many there are."""

    def __init__(self) -> None:
        self.now, self.seen = 0, list[int]()

    @contextmanager
    def __call__(self, python: str, scratch: Path, *_: object) -> Iterator["Coming"]:
        self.now += 1
        self.seen.append(len(list(scratch.parent.glob("afo-tb-*"))))
        yield self
        self.now -= 1

    def await_listening(self, given_up: Callable[[], bool]) -> None:
        until(given_up)

    pid = port = 0


def test_those_that_make_room_are_gone_before_others_begin(
    boards: TensorBoards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tensorboards, "tensorboard", coming := Coming())
    for number in range(4 * LIMIT):
        boards.use(f"board-{number}", "/tb", lambda: (Shown("x", str(tmp_path)),))
        until(lambda number=number: number >= LIMIT or coming.now == number + 1)
    until(lambda: coming.now == LIMIT and boards.count() == LIMIT)
    assert max(coming.seen) <= LIMIT
    boards.close()
    assert (coming.now, list(tmp_path.iterdir())) == (0, [])


def test_one_that_nobody_wants_any_more_copies_nothing_and_starts_nothing(
    boards: TensorBoards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first job's files are copied when it is told to end."""
    monkeypatch.setattr(tensorboards, "tensorboard", coming := Coming())
    copied: list[str] = []

    def copying(folder: SummaryFolder) -> None:
        copied.append(folder.path.name)
        boards._boards["it"].stop("others were opened")
        assert folder._given_up()

    monkeypatch.setattr(SummaryFolder, "refresh", copying)
    board = boards.use("it", "/tb", lambda: tuple(Shown(f"job-{number}", str(tmp_path)) for number in range(3)))
    board.join()
    assert (copied, coming.seen, board.ended) == (["job-0"], [], "others were opened")


@pytest.mark.tensorflow
def test_one_that_grows_too_large_ends(boards: TensorBoards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboards, "MAX_RSS", 1 << 20)
    board = boards.use("large", "/tb/large", lambda: (Shown("large", str(tmp_path)),))
    until(lambda: board.ended)
    assert "GiB of memory" in board.ended


class Upstream(BaseHTTPRequestHandler):
    """Says what it was asked."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        if self.path == "/tb/away":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        words = json.dumps([self.command, self.path, dict(self.headers), body]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Set-Cookie", "theirs=1")
        self.send_header("X-Theirs", "yes")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.command != "HEAD":
            for part in (words[:5], words[5:]):
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer

    def log_message(self, *_: object) -> None:
        """Quiet."""


#: What says who somebody is.
CREDENTIALS = {"Authorization", "Cookie", "X-Remote-User"}


@pytest.fixture
def proxied() -> Iterator[FlaskClient]:
    """Everything goes to `Upstream`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    app = Flask(__name__)
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

    def pass_on(_: str) -> Response:
        response = proxy.forward(request, server.server_port)
        response.headers["X-Came"] = ",".join(sorted({name for name, _ in request.headers} & CREDENTIALS))
        return response

    app.add_url_rule("/<path:_>", "x", pass_on, methods=methods)
    yield browser(app)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_each_method_goes_on_with_its_body_and_without_credentials(proxied: FlaskClient, method: str) -> None:
    # As a header it would be dropped: the client sends its own cookies.
    proxied.set_cookie("ours", "1", domain="127.0.0.1")
    headers = {"Authorization": "Basic x", "X-XSRF-Protected": "1", "X-Remote-User": "eve"}
    answer = proxied.open("/tb/a b%2Fc?x=%20&y", method=method, data=b"body", headers=headers)
    command, path, seen, body = answer.json
    assert (command, path, body) == (method, "/tb/a%20b/c?x=%20&y", "body")
    assert seen["X-XSRF-Protected"] == "1"
    assert answer.headers["X-Came"] == "Authorization,Cookie,X-Remote-User"
    assert not CREDENTIALS & set(seen)
    assert seen["Host"].startswith("127.0.0.1:")
    assert answer.headers["X-Theirs"] == "yes"
    assert "Set-Cookie" not in answer.headers


def test_a_head_has_no_body(proxied: FlaskClient) -> None:
    answer = proxied.head("/tb/x")
    assert (answer.status_code, answer.data) == (200, b"")


def test_a_redirect_is_not_followed(proxied: FlaskClient) -> None:
    answer = proxied.get("/tb/away")
    assert (answer.status_code, answer.location) == (302, "http://169.254.169.254/")


def test_nobody_there_is_an_error() -> None:
    app = Flask(__name__)
    with app.test_request_context("/tb/"), pytest.raises(OSError, match="refused"):
        proxy.forward(request, 1)
    assert issubclass(AfoError, Exception)
