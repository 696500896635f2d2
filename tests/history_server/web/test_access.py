"""Who may see and do what: signing in, a reverse proxy's header, lists of users, and forms of other sites."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from afo.errors import PermissionDenied
from afo.job.paths import JobPaths
from afo.site.history import HistorySite
from afo_history_server.store.job_files import JobFiles
from afo_history_server.web.access import Access
from afo_history_server.web.app import close_app, create_app
from afo_history_server.web.authentication import FOR_EVERYBODY, PROXY_SECRET
from afo_history_server.web.serve import proxy_secret
from job_writer import DONE, FAILED, RUNNING, JobWriter
from pages import SERVED, TOKEN, browser, by, form

#: A value for each part of an address.
PARTS = {"job_id": DONE, "task": "worker_1", "attempt": "0", "stream": "stderr", "proof": "x", "jobs": DONE,
         "rest": "r",
         "filename": "afo.css", "name": "profile-worker_1-3"}  # fmt: skip


def acls(job: JobWriter, view: tuple[str, ...] = (), modify: tuple[str, ...] = ()) -> None:
    """The job was submitted with these lists."""
    path = Path(job.paths.job)
    submitted = json.loads(path.read_bytes())
    submitted["job"]["acls"] = {"view": view, "modify": modify}
    path.write_text(json.dumps(submitted))


@pytest.mark.parametrize("auth", ["token", "proxy"])
@pytest.mark.usefixtures("done")
def test_no_route_answers_somebody_unknown(serve: Callable[..., FlaskClient], auth: str) -> None:
    client = serve(**SERVED) if auth == "proxy" else serve(auth="token")
    checked = 0
    for rule in client.application.url_map.iter_rules():
        if rule.endpoint in FOR_EVERYBODY:
            continue
        address = re.sub(r"<(?:[^<>]*:)?(\w+)>", lambda part: PARTS[part[1]], rule.rule)
        host = "localhost" if address.startswith("/tb/") else "127.0.0.1"
        for method in rule.methods or ():
            if method == "OPTIONS" and rule.provide_automatic_options:
                continue
            answer = client.open(address, method=method, base_url=f"http://{host}:18089")
            assert answer.status_code == 401, (method, address, answer.status_code)
            assert "feeds-ctr" not in answer.text
            checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    "request_", [by("alice", "10.0.0.8"), by("alice", "127.0.0.1"), by(""), by("a b"), by("alice,bob"), by("a" * 101),
                 by("<b>"), {"headers": {"Authorization": "Bearer x"}}, {"headers": {"Authorization": "Bearer "}},
                 {"headers": {"Cookie": "proxy-user=alice"}}]
)  # fmt: skip
@pytest.mark.usefixtures("done")
def test_a_name_from_elsewhere_is_nobodys(serve: Callable[..., FlaskClient], request_: dict[str, Any]) -> None:
    client = serve(**SERVED)
    assert client.get("/", **request_).status_code == 401
    assert client.get("/", **by("alice")).status_code == 200


def test_a_proxy_on_this_machine_proves_itself(root: str, done: JobWriter, believed: None) -> None:
    """Its address is that of every program here."""
    site = HistorySite(auth="proxy", proxies=("127.0.0.1",), proxy_secret_file="/etc/afo/proxy.secret")
    app = create_app(root, access=Access(site, "me", proxy_secret="s" * 32))
    client, request = browser(app), by("alice", "127.0.0.1")
    for secret in (None, "", "x", "s" * 31, "ä" * 32):
        headers = request["headers"] | ({PROXY_SECRET: secret} if secret is not None else {})
        assert client.get("/", **request | {"headers": headers}).status_code == 401
    right = request["headers"] | {PROXY_SECRET: "s" * 32}
    assert "feeds-ctr" in client.get("/", **request | {"headers": right}).text
    assert client.get("/", headers=right, environ_base={"REMOTE_ADDR": "10.0.0.8"}).status_code == 401
    close_app(app)


def test_the_proxy_s_secret_is_not_everybody_s(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    site = HistorySite(**SERVED, proxy_secret_file=str(file))
    with pytest.raises(PermissionDenied, match="cannot read the secret"):
        proxy_secret(site)
    file.write_text("abc\n")
    file.chmod(0o644)
    with pytest.raises(PermissionDenied, match="everybody on this machine can read"):
        proxy_secret(site)
    file.chmod(0o640)
    assert proxy_secret(site) == "abc"
    assert proxy_secret(HistorySite(**SERVED)) == ""


@pytest.mark.parametrize(
    ("user", "sees", "acts"),
    [("alice", True, True), ("vera", True, False), ("mod", True, True), ("admin", True, True), ("eve", False, False)],
)
def test_owner_lists_and_admins(
    serve: Callable[..., FlaskClient], done: JobWriter, failed: JobWriter, user: str, sees: bool, acts: bool
) -> None:
    acls(done, view=("vera",), modify=("mod",))
    client = serve(**SERVED)
    listed = {job["job_id"] for job in client.get("/api/v1/jobs", **by(user)).json["jobs"]}
    assert (DONE in listed) == sees
    assert (FAILED in listed) == (user == "admin"), "bob's, who names nobody"
    groups = client.get("/api/v1/fleet?since=2025-01-01", **by(user)).json["fleet"]["groups"]
    assert ("alice" in [group["name"] for group in groups]) == sees
    for address in (f"/jobs/{DONE}", f"/jobs/{DONE}/logs/worker_1/0/stderr", f"/api/v1/jobs/{DONE}/settings",
                    f"/jobs/{DONE}/logs/worker_1/0/stderr/download", f"/tensorboard?job={DONE}"):  # fmt: skip
        answer = client.get(address, **by(user))
        assert answer.status_code in ((200, 302) if sees else (404,)), address
    compared = client.get(f"/compare?job={DONE}&job={FAILED}", **by(user))
    assert compared.status_code == (200 if user == "admin" else 404)
    if sees:
        assert ("Delete this job" in client.get(f"/jobs/{DONE}", **by(user)).text) == acts
    deleted = client.post(f"/jobs/{DONE}/delete", data={"csrf": "x"}, **by(user))
    assert deleted.status_code == (403 if sees else 404)
    assert Path(done.paths.dir).is_dir()


def test_everybody_may_be_named(serve: Callable[..., FlaskClient], done: JobWriter, failed: JobWriter) -> None:
    acls(done, view=("*",))
    client = serve(**SERVED)
    assert client.get(f"/jobs/{DONE}", **by("eve")).status_code == 200
    assert "Delete this job" not in client.get(f"/jobs/{DONE}", **by("eve")).text
    acls(failed, modify=("*",))
    assert "Delete this job" in serve(**SERVED).get(f"/jobs/{FAILED}", **by("eve")).text


def test_the_right_ends_with_the_job_s_own_tensorboard(serve: Callable[..., FlaskClient], done: JobWriter) -> None:
    client = serve(**SERVED)
    location = client.get(f"/tensorboard?job={DONE}", **by("alice")).location
    path = location.removeprefix("//localhost:18089")
    answer = client.get(path, base_url="http://localhost:18089", **by("eve"))
    assert answer.status_code == 404
    assert "eve may see" in answer.text


def test_signing_in_by_address_and_by_form(serve: Callable[..., FlaskClient], done: JobWriter) -> None:
    for sign_in in (lambda client: client.get(f"/login?token={TOKEN}"),
                    lambda client: client.post("/login", data={"token": TOKEN})):  # fmt: skip
        client = serve(auth="token")
        assert "afo history login" in client.get("/").text
        answer = sign_in(client)
        assert (answer.status_code, answer.location) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert TOKEN not in cookie
        assert "feeds-ctr" in client.get("/").text
        assert client.post("/logout", data=form(client, "/", "/logout")).status_code == 303
        assert client.get("/").status_code == 401


def test_a_cookie_goes_over_tls_alone_where_that_is_how_browsers_come(serve: Callable[..., FlaskClient]) -> None:
    names = {"name": "history.example", "tensorboard_name": "tb.example"}
    for https in (True, False):
        client = serve(auth="token", https=https, **names)
        answer = client.get(f"/login?token={TOKEN}", base_url="http://history.example")
        assert ("Secure" in answer.headers["Set-Cookie"]) == https
    assert HistorySite(auth="token", https=True, **names).browser_address == "https://history.example/"
    assert HistorySite(auth="token", **names).browser_address == ""


@pytest.mark.parametrize("token", ["x", TOKEN[:-1], TOKEN + "t", "ä"])
def test_another_token_signs_nobody_in(serve: Callable[..., FlaskClient], token: str) -> None:
    client = serve(auth="token")
    assert client.get("/login", query_string={"token": token}).status_code == 403
    assert client.post("/login", data={"token": token}).status_code == 403
    assert client.get("/").status_code == 401


def test_without_a_token_nobody_signs_in(root: str) -> None:
    app = create_app(root)
    for token in ("", "x"):
        assert browser(app).post("/login", data={"token": token}).status_code == 403
    close_app(app)


def test_who_has_not_signed_in_sees_all_and_does_nothing(serve: Callable[..., FlaskClient], done: JobWriter) -> None:
    client = serve()
    page = client.get(f"/jobs/{DONE}")
    assert page.status_code == 200
    assert "Delete this job" not in page.text
    assert client.post(f"/jobs/{DONE}/delete", data={"csrf": "x"}).status_code == 401
    assert Path(done.paths.dir).is_dir()


@pytest.mark.usefixtures("failed")
def test_a_form_of_another_page_user_or_site_changes_nothing(
    serve: Callable[..., FlaskClient], done: JobWriter
) -> None:
    client = serve()
    client.get(f"/login?token={TOKEN}")
    right = form(client, f"/jobs/{DONE}", f"/jobs/{DONE}/delete")
    of_another_user = form(serve(**SERVED), f"/jobs/{DONE}", f"/jobs/{DONE}/delete", **by("alice"))
    of_another_job = form(client, f"/jobs/{FAILED}", f"/jobs/{FAILED}/delete")
    for data in ({}, {"csrf": ""}, {"csrf": "0" * 64}, of_another_job, of_another_user):
        assert client.post(f"/jobs/{DONE}/delete", data=data).status_code == 403
        assert client.post(f"/api/v1/jobs/{DONE}/delete", data=data).status_code == 403
    for origin in ("http://evil.example", "null", "http://localhost:18089", "http://127.0.0.1:9999"):
        assert client.post(f"/jobs/{DONE}/delete", data=right, headers={"Origin": origin}).status_code == 403
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        assert client.open(f"/jobs/{DONE}/delete", method=method, data=right).status_code == 405
    assert Path(done.paths.dir).is_dir()
    answer = client.post(f"/jobs/{DONE}/delete", data=right, headers={"Origin": "http://127.0.0.1:18089"})
    assert (answer.status_code, answer.location) == (303, "/")
    assert not Path(done.paths.dir).exists()
    assert list(Path(done.paths.root).glob("deleted-*")) == []


def test_what_a_state_does_not_allow_is_said(
    serve: Callable[..., FlaskClient], done: JobWriter, running: JobWriter
) -> None:
    client = serve()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for action, job, words in (("kill", DONE, "has ended: it is SUCCEEDED"), ("checkpoint", DONE, "has ended"),
                               ("delete", RUNNING, "is RUNNING; only a job that has ended")):  # fmt: skip
        answer = client.post(f"/api/v1/jobs/{job}/{action}", headers=headers)
        assert answer.status_code == 400
        assert words in answer.json["error"]["message"]
    answer = client.post(f"/api/v1/jobs/{RUNNING}/kill", headers=headers)
    assert answer.status_code == 403
    assert "the secret of" in answer.json["error"]["message"]
    long = client.post(f"/api/v1/jobs/{RUNNING}/kill", headers=headers, data={"reason": "x" * 501})
    assert "allowed are 500" in long.json["error"]["message"]


def test_a_program_with_the_token_needs_no_form(
    serve: Callable[..., FlaskClient], done: JobWriter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client = serve(auth="token")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = client.post(f"/api/v1/jobs/{DONE}/delete", headers=headers, data={"reason": "old\nINFO forged"})
    assert (answer.status_code, answer.json) == (202, {"api": "afo/v1", "job_id": DONE, "action": "delete"})
    assert client.get(f"/jobs/{DONE}", headers=headers).status_code == 404
    assert f"delete of {DONE} by 'me', reason 'old\\nINFO forged'" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ({"listen": "0.0.0.0"}, "beyond this machine need `auth"),
        ({"name": "h.example", "tensorboard_name": "t.example"}, "beyond this machine need `auth"),
        ({"listen": "localhost"}, "is no IP address"),
        ({"auth": "token", "listen": "10.0.0.7"}, "needs `name`"),
        ({"auth": "proxy"}, "need each other"),
        ({"proxies": ("10.0.0.1",)}, "need each other"),
        ({"auth": "proxy", "proxies": ("proxy",)}, "is no IP address"),
        ({"auth": "proxy", "proxies": ("::ffff:127.0.0.1",)}, "write '::ffff:127.0.0.1' as 127.0.0.1"),
        ({"auth": "proxy", "proxies": ("0::1",)}, "write '0::1' as ::1"),
        ({"auth": "token", "name": "h.example"}, "need each other, and differ"),
        ({"auth": "token", "name": "h.example", "tensorboard_name": "h.example"}, "need each other, and differ"),
        ({"auth": "token", "name": "H:80", "tensorboard_name": "t"}, "without a port"),
        ({"auth": "proxy", "proxies": ("127.0.0.1",)}, "it needs `proxy_secret_file`"),
        ({"auth": "proxy", "proxies": ("10.0.0.9", "127.8.0.1")}, "127.8.0.1, from where each program"),
        ({"auth": "proxy", "proxies": ("::1",)}, "it needs `proxy_secret_file`"),
        (
            {"auth": "proxy", "proxies": ("10.0.0.7",), "listen": "10.0.0.7", "name": "h", "tensorboard_name": "t"},
            "it needs `proxy_secret_file`",
        ),
        ({"proxy_secret_file": "/x"}, "needs `auth: proxy`"),
        ({"auth": "token", "https": True}, "`https` needs `name`"),
        ({"user_header": "X User"}, "letters, digits"),
    ],
)
def test_a_site_that_would_be_open_to_all_is_refused(site: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HistorySite(**site)


def test_names_of_a_site(serve: Callable[..., FlaskClient], done: JobWriter) -> None:
    client = serve(**SERVED, name="history.example", tensorboard_name="tb.example")
    assert client.get("/", base_url="http://127.0.0.1", **by("alice")).status_code == 403
    assert client.get("/", base_url="https://history.example", **by("alice")).status_code == 200
    answer = client.get(f"/tensorboard?job={DONE}", base_url="https://history.example", **by("alice"))
    assert answer.location.startswith("//tb.example/tb/")
    assert client.get("/", base_url="https://tb.example", **by("alice")).location == "//history.example/"


@pytest.fixture
def strict(root: str) -> Iterator[FlaskClient]:
    """A server that many users share."""
    app = create_app(root, access=Access(HistorySite(**SERVED), "me"))
    yield browser(app)
    close_app(app)


def test_a_job_belongs_to_whom_its_file_belongs_to(
    strict: FlaskClient, writer: Callable[..., JobWriter], failed: JobWriter
) -> None:
    """Somebody writes the directory of a job that is alice's, as they say, and events of hers into one of their own."""
    me = Path(failed.paths.job).owner()
    mine = writer(DONE, user=me)
    mine.user = "alice"  # what the events claim
    mine.begin()
    writer(RUNNING, user="alice").begin()
    Path(JobPaths(failed.paths.root, "application_1763000000000_0077").dir).mkdir()
    for user, sees in ((me, {DONE}), ("alice", set()), ("bob", set())):
        assert {job["job_id"] for job in strict.get("/api/v1/jobs", **by(user)).json["jobs"]} == sees
    assert strict.get(f"/jobs/{RUNNING}", **by("alice")).status_code == 403
    assert strict.get("/jobs/application_1763000000000_0077", **by("alice")).status_code == 404
    problems = {job["job_id"]: job["problem"] for job in strict.get("/api/v1/jobs", **by("admin")).json["jobs"]}
    assert problems[RUNNING].endswith(f"says that alice submitted the job, but belongs to {me}")


def test_the_right_to_see_a_job_costs_no_look_at_its_log(
    serve: Callable[..., FlaskClient], running: JobWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(**SERVED)
    assert client.get(f"/jobs/{RUNNING}", **by("alice")).status_code == 200
    listed: list[str] = []
    list_dir = JobFiles.list_dir
    monkeypatch.setattr(JobFiles, "list_dir", lambda self, url: listed.append(url) or list_dir(self, url))
    assert client.get(f"/jobs/{RUNNING}/events", **by("alice")).status_code == 200
    assert listed == [running.paths.events], "the page itself looks once"
