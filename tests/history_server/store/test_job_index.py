"""The list of jobs over many scans: what is read again, what a restart knows, and a file system that goes away."""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from afo import storage
from afo.errors import ClusterUnreachable
from afo_history_server.maintenance.periodic import Periodic
from afo_history_server.store.ended_jobs import EndedJobs
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_index import QUIET_EVERY_S, QUIET_S
from afo_history_server.store.job_store import JobStore
from afo_history_server.store.telemetry import Telemetry
from afo_history_server.web.app import JOBS, close_app, create_app
from job_writer import DONE, FAILED, RUNNING, JobWriter
from pages import browser


def noted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """URLs that a method of `JobFiles` is called with from now on."""
    urls: list[str] = []
    method = getattr(JobFiles, name)
    monkeypatch.setattr(JobFiles, name, lambda self, url: urls.append(url) or method(self, url))  # type: ignore[func-returns-value]
    return urls


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """URLs of the files that were opened since."""
    return noted(monkeypatch, "open")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """URLs of the directories that were listed since."""
    return noted(monkeypatch, "list_dir")


def ids(client: FlaskClient) -> list[str]:
    return [job["job_id"] for job in client.get("/api/v1/jobs").json["jobs"]]


def test_a_directory_of_jobs_that_does_not_exist_yet(client: FlaskClient, root: str) -> None:
    Path(root).rmdir()
    assert f"<code>{root}</code> does not exist" in client.get("/").text
    assert client.get("/api/v1/jobs").json["missing"] is True


@pytest.mark.usefixtures("done", "failed")
def test_jobs_whose_directory_is_gone_are_kept_and_it_is_told(
    client: FlaskClient, clock: list[float], root: str
) -> None:
    assert ids(client) == [FAILED, DONE]
    Path(root).rename(f"{root}-unmounted")
    clock[0] += 10
    answer = client.get("/api/v1/jobs").json
    assert [job["job_id"] for job in answer["jobs"]] == [FAILED, DONE]
    assert "no such file or directory" in answer["problem"]
    assert "nothing newer can be" in client.get("/").text
    Path(f"{root}-unmounted").rename(root)
    clock[0] += 10
    assert client.get("/api/v1/jobs").json["problem"] == ""


@pytest.mark.usefixtures("done", "failed")
def test_a_scan_reads_no_ended_job_again_and_lists_the_root_rarely(
    client: FlaskClient, clock: list[float], root: str, opened: list[str], listed: list[str]
) -> None:
    assert ids(client) == [FAILED, DONE]
    assert len(opened) == 6, "job.json, verdict.json and annotations.json of each"
    for _ in range(50):
        clock[0] += 10
        ids(client)
    assert len(opened) == 6
    assert listed.count(root) <= 9


def test_jobs_come_and_go(
    client: FlaskClient, clock: list[float], done: JobWriter, writer: Callable[..., JobWriter], root: str
) -> None:
    for _ in range(10):
        clock[0] += 10
        assert ids(client) == [DONE]
    writer(FAILED).begin()
    clock[0] += 10
    assert ids(client) == [FAILED, DONE]
    storage.delete(f"{root}/{DONE}", recursive=True)
    clock[0] += 10
    assert ids(client) == [FAILED]


def test_one_user_s_directories_push_nobody_else_s_out_of_the_list(
    root: str, clock: list[float], done: JobWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer ones than any, as many as there may be."""
    for number in range(1, 9):
        storage.make_dirs(f"{root}/application_9999999999999_{number:04d}")
    list_dir = JobFiles.list_dir

    def owned(self: JobFiles, url: str) -> list[storage.FileInfo]:
        found = list_dir(self, url)
        return [replace(info, owner="eve" if "_99999" in info.url else "alice") for info in found]

    monkeypatch.setattr(JobFiles, "list_dir", owned)
    found = JobStore(root, Telemetry(), lambda: clock[0], max_jobs=4).jobs()
    listed = {job.job_id for job in found.jobs}
    assert (len(listed), found.left_out) == (4, 5)
    assert DONE in listed
    assert "application_9999999999999_0008" in listed, "of hers the newest"


def test_a_link_to_a_job_is_no_job(client: FlaskClient, root: str, done: JobWriter) -> None:
    Path(root, FAILED).symlink_to(done.paths.dir)
    assert ids(client) == [DONE]
    for address in (f"/jobs/{FAILED}", f"/api/v1/jobs/{FAILED}", f"/api/v1/jobs/{FAILED}/events"):
        assert client.get(address).status_code == 404
    assert client.get(f"/jobs/{FAILED}/logs/worker_1/0/stderr").status_code == 403


def test_a_job_that_has_just_come_and_says_nothing_yet_is_looked_at_each_time(
    client: FlaskClient, clock: list[float], done: JobWriter, writer: Callable[..., JobWriter], root: str
) -> None:
    assert ids(client) == [DONE]
    storage.make_dirs(f"{root}/{FAILED}")
    clock[0] += 10
    assert ids(client) == [DONE, FAILED]
    writer(FAILED).begin()
    clock[0] += 3
    assert ids(client) == [FAILED, DONE]


def test_a_job_that_was_seen_before_its_file_was_there_has_its_tags(
    client: FlaskClient, clock: list[float], writer: Callable[..., JobWriter], root: str
) -> None:
    """Also if its log says that it has ended before its verdict is there, as a scan may meet it."""
    storage.make_dirs(f"{root}/{FAILED}/events")
    assert ids(client) == [FAILED]
    writer(FAILED, tags={"team": "feeds"}).begin().end("FAILED", "user_exception", verdict=False)
    clock[0] += QUIET_EVERY_S
    [job] = client.get("/api/v1/jobs?q=team%3Dfeeds").json["jobs"]
    assert (job["state"], job["tags"]) == ("FAILED", {"team": "feeds"})


def test_the_log_of_a_job_whose_file_was_lost_is_read_once(
    client: FlaskClient, running: JobWriter, root: str, opened: list[str]
) -> None:
    storage.delete(f"{root}/{RUNNING}/job.json")
    opened.clear()
    for _ in range(3):
        assert client.get(f"/api/v1/jobs/{RUNNING}").json["job"]["state"] == "RUNNING"
    assert len([url for url in opened if "/events/" in url]) == 1


def test_directories_that_never_say_anything_are_looked_at_now_and_then(
    client: FlaskClient, clock: list[float], done: JobWriter, root: str, opened: list[str]
) -> None:
    ids(client)
    storage.make_dirs(f"{root}/{FAILED}")
    clock[0] += 10
    ids(client)
    clock[0] += QUIET_S + 1
    ids(client)
    opened.clear()
    clock[0] += QUIET_EVERY_S - 1
    assert ids(client) == [DONE, FAILED]
    assert opened == []


def test_a_quiet_job_is_looked_at_now_and_then(
    client: FlaskClient, clock: list[float], running: JobWriter, opened: list[str]
) -> None:
    ids(client)
    clock[0] += QUIET_S + 1000
    ids(client)
    opened.clear()
    clock[0] += QUIET_EVERY_S - 1
    ids(client)
    assert opened == []
    running.end("SUCCEEDED", "succeeded")
    clock[0] += 2
    assert [job["state"] for job in client.get("/api/v1/jobs").json["jobs"]] == ["SUCCEEDED"]


def list_of(root: str, index: Path) -> list[str]:
    """What a server that starts now shows."""
    app = create_app(root, index=index)
    found = ids(browser(app))
    close_app(app)
    return found


@pytest.mark.usefixtures("done", "failed")
def test_a_restart_reads_no_ended_job(root: str, tmp_path: Path, opened: list[str]) -> None:
    index = tmp_path / "history" / "jobs.sqlite"
    assert list_of(root, index) == [FAILED, DONE]
    assert len(opened) == 6
    assert list_of(root, index) == [FAILED, DONE]
    assert len(opened) == 6
    storage.delete(f"{root}/{DONE}", recursive=True)
    assert list_of(root, index) == [FAILED]
    with sqlite3.connect(index) as file:
        assert file.execute("SELECT id FROM ended").fetchall() == [(FAILED,)]
    file.close()


@pytest.mark.usefixtures("done")
def test_nobody_else_may_read_the_index_or_what_lies_beside_it(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, modes = tmp_path / "jobs.sqlite", []
    index.touch(0o644)  # as an earlier version left it
    monkeypatch.setattr(EndedJobs, "_open", lambda self, path, open_file=EndedJobs._open: _seen(open_file, self, path))

    def _seen(open_file: Callable[..., sqlite3.Connection], *args: object) -> sqlite3.Connection:
        file = open_file(*args)
        modes.extend((each.name, each.stat().st_mode & 0o777) for each in tmp_path.glob("jobs.sqlite*"))
        return file

    list_of(root, index)
    assert set(modes) >= {("jobs.sqlite", 0o600), ("jobs.sqlite-wal", 0o600), ("jobs.sqlite-shm", 0o600)}
    assert {mode for _, mode in modes} == {0o600}


@pytest.mark.parametrize("damage", ["no database", "other version", "bad line", "directory"])
@pytest.mark.usefixtures("done", "failed")
def test_a_damaged_index_is_made_anew(root: str, tmp_path: Path, damage: str, opened: list[str]) -> None:
    index = tmp_path / "jobs.sqlite"
    if damage == "directory":
        index.mkdir()
        assert list_of(root, index) == [FAILED, DONE]
        return
    list_of(root, index)
    if damage == "no database":
        index.write_bytes(b"\0not a database" * 1000)
    else:
        with sqlite3.connect(index) as file:
            change = "PRAGMA user_version = 1" if damage == "other version" else "UPDATE ended SET line = '{'"
            file.execute(change)
        file.close()
    opened.clear()
    assert list_of(root, index) == [FAILED, DONE]
    assert len(opened) == 6
    assert list_of(root, index) == [FAILED, DONE]
    assert len(opened) == 6, "it is of use again"


@pytest.mark.usefixtures("done")
def test_a_file_system_that_is_away_leaves_the_last_list(
    client: FlaskClient, clock: list[float], writer: Callable[..., JobWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nothing newer can be" not in client.get("/").text
    writer(FAILED).begin()

    def away(url: str) -> None:
        raise ClusterUnreachable("no NameNode answers")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "info", away)
        clock[0] += 65
        for page in ("/", "/fleet"):
            text = client.get(page).text
            assert "1 min 5 s ago; nothing newer can be" in text
            assert "no NameNode answers" in text
        answer = client.get("/api/v1/jobs").json
        assert ([job["job_id"] for job in answer["jobs"]], answer["problem"]) == ([DONE], "no NameNode answers")
    clock[0] += 10
    assert ids(client) == [FAILED, DONE]
    assert "nothing newer can be" not in client.get("/").text


@pytest.mark.usefixtures("done", "running")
def test_who_comes_during_a_scan_gets_the_list_as_it_was(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(root, lambda: 0.0)
    store = app.extensions[JOBS]
    first = store.jobs()
    inside, go_on = threading.Event(), threading.Event()

    list_dir = JobFiles.list_dir

    def slow(self: JobFiles, url: str) -> list[storage.FileInfo]:
        inside.set()
        assert go_on.wait(30)
        return list_dir(self, url)

    monkeypatch.setattr(JobFiles, "list_dir", slow)
    scan = threading.Thread(target=store.refresh)
    scan.start()
    assert inside.wait(30)
    assert store.refresh() is first
    go_on.set()
    scan.join()
    close_app(app)


@pytest.mark.usefixtures("done")
def test_scans_come_without_requests_and_survive_a_failed_one(root: str, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(root)
    store, scans, fail = app.extensions[JOBS], threading.Semaphore(0), [RuntimeError("a bug"), ClusterUnreachable("x")]
    refresh = store.refresh

    def counted() -> None:
        scans.release()
        if fail:
            raise fail.pop()
        refresh()

    with Periodic(counted, "a scan", 0.01):
        for _ in range(4):
            assert scans.acquire(timeout=30)
    assert {"a scan: x", "a scan failed; it is tried again"} <= {record.getMessage() for record in caplog.records}
    assert [job.job_id for job in store.jobs().jobs] == [DONE]
    close_app(app)
