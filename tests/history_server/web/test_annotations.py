"""Notes and tags: who may write them, what is refused, what becomes of them in the list and on pages."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from afo_history_server.store import live_job
from afo_history_server.web.app import JOBS
from job_writer import DONE, RUNNING, JobWriter
from pages import SERVED, TOKEN, by, form

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another program writes to a live job is seen with the next look."""
    monkeypatch.setattr(live_job, "ANNOTATIONS_EVERY_S", 0.0)


def listed(client: FlaskClient, query: str = "") -> dict[str, dict[str, object]]:
    jobs = client.get(f"/api/v1/jobs?{query}", headers=HEADERS).json["jobs"]
    return {job["job_id"]: {"notes": job["notes"], "tags": job["tags"]} for job in jobs}


@pytest.mark.parametrize("job", ["done", "running"])
def test_a_form_writes_and_the_list_finds_them(
    serve: Callable[..., FlaskClient], request: pytest.FixtureRequest, job: str
) -> None:  # fmt: skip
    job_id = request.getfixturevalue(job).paths.job_id
    client = serve()
    client.get(f"/login?token={TOKEN}")
    assert listed(client)[job_id]["notes"] == ""
    fields = form(client, f"/jobs/{job_id}", f"/jobs/{job_id}/annotate")
    shown = client.get(f"/jobs/{job_id}").text
    version = re.search(r'name="version" value="([0-9a-f]{16})"', shown)
    assert version
    data = fields | {
        "version": version[1],
        "notes": "broken <b>vocabulary</b>\r\nsee Ann ",
        "tags": "team = x\n\nq=1=2",
    }
    answer = client.post(f"/jobs/{job_id}/annotate", data=data)
    assert (answer.status_code, answer.location) == (303, f"/jobs/{job_id}?asked=annotate")
    expected = {"notes": "broken <b>vocabulary</b>\nsee Ann", "tags": {"team": "x", "q": "1=2"}}
    assert listed(client)[job_id] == expected
    assert set(listed(client, "q=vocabulary")) == set(listed(client, "tag=team=x")) == {job_id}
    page = client.get(f"/jobs/{job_id}").text
    assert "broken &lt;b&gt;vocabulary&lt;/b&gt;\nsee Ann</p>" in page
    # Who had the page open before would overwrite it.
    late = client.post(f"/jobs/{job_id}/annotate", data=data | {"notes": "mine"})
    assert late.status_code == 400
    assert "changed by somebody else since" in late.text
    assert listed(client)[job_id] == expected


def test_what_is_left_out_stays(serve: Callable[..., FlaskClient], done: JobWriter) -> None:
    client = serve()
    address = f"/api/v1/jobs/{DONE}/annotate"
    assert client.post(address, headers=HEADERS, data={"notes": "a"}).json["action"] == "annotate"
    assert client.post(address, headers=HEADERS, data={"tags": "k=v"}).status_code == 202
    assert listed(client)[DONE] == {"notes": "a", "tags": {"k": "v"}}
    assert client.post(address, headers=HEADERS, data={"tags": "", "notes": ""}).status_code == 202
    assert listed(client)[DONE] == {"notes": "", "tags": {}}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"notes": "x" * 10_001}, "10,001 characters; allowed are 10,000"),
        ({"tags": "team"}, "has no value; allowed is key=value"),
        ({"tags": "a=1\na=2"}, "stands there twice"),
        ({"tags": "=1"}, "tag &#39;&#39;; allowed are 1 to 63"),
        ({"tags": "a-=1"}, "or &#39;-&#39; at the last"),
        ({"tags": "a=\x1b[31m"}, "allowed are up to 200 printable"),
        ({"tags": "\n".join(f"k{each}=1" for each in range(33))}, "33 tags; a job can have 32"),
    ],
)
def test_what_is_refused_is_said_and_changes_nothing(
    serve: Callable[..., FlaskClient], done: JobWriter, data: dict[str, str], words: str
) -> None:  # fmt: skip
    client = serve()
    client.get(f"/login?token={TOKEN}")
    fields = form(client, f"/jobs/{DONE}", f"/jobs/{DONE}/annotate")
    answer = client.post(f"/jobs/{DONE}/annotate", data=fields | data)
    assert answer.status_code == 400
    assert words in answer.text
    assert not Path(done.paths.annotations).exists()


@pytest.mark.usefixtures("done")
def test_only_who_may_modify_a_job_writes_to_it(serve: Callable[..., FlaskClient]) -> None:
    client = serve(**SERVED)
    assert "annotate" not in client.get(f"/jobs/{DONE}", **by("bob")).text
    assert client.post(f"/jobs/{DONE}/annotate", data={"notes": "x"}, **by("bob")).status_code in (403, 404)
    fields = form(client, f"/jobs/{DONE}", f"/jobs/{DONE}/annotate", **by("alice"))
    assert client.post(f"/jobs/{DONE}/annotate", data=fields | {"notes": "x"}, **by("alice")).status_code == 303


def test_what_another_program_writes_is_shown_also_of_an_ended_job(
    serve: Callable[..., FlaskClient], done: JobWriter, running: JobWriter
) -> None:  # fmt: skip
    client = serve()
    listed(client)
    for job in (done, running):
        Path(job.paths.annotations).write_text(json.dumps({"notes": "by hand", "tags": {"a": "b"}}))
    store = client.application.extensions[JOBS]
    for _ in range(20):
        store.refresh()
    assert listed(client) == {each: {"notes": "by hand", "tags": {"a": "b"}} for each in (DONE, RUNNING)}
    assert all("by hand" in client.get(f"/jobs/{each}").text for each in (DONE, RUNNING))


@pytest.mark.parametrize(
    "text",
    ["{", '{"notes": 7}', '{"tags": {"a": "\\u001b"}}', json.dumps({"notes": "x" * 10_001}), " " * (300 << 10)],
)
def test_a_damaged_file_hides_nothing_else(
    serve: Callable[..., FlaskClient], done: JobWriter, text: str
) -> None:  # fmt: skip
    Path(done.paths.annotations).write_text(text)
    client = serve()
    assert listed(client)[DONE]["notes"] == ""
    assert "Its notes and tags cannot be read" in client.get(f"/jobs/{DONE}").text
    answer = client.post(f"/api/v1/jobs/{DONE}/annotate", headers=HEADERS, data={"notes": "x"})
    assert answer.status_code == 400
    assert "delete it to write" in answer.json["error"]["message"]
    assert Path(done.paths.annotations).read_text() == text


def test_a_link_is_neither_read_nor_written_through(
    serve: Callable[..., FlaskClient], done: JobWriter, tmp_path: Path
) -> None:  # fmt: skip
    other = tmp_path / "other.json"
    other.write_text('{"notes": "secret"}')
    Path(done.paths.annotations).symlink_to(other)
    client = serve()
    page = client.get(f"/jobs/{DONE}").text
    assert "secret" not in page
    client.post(f"/api/v1/jobs/{DONE}/annotate", headers=HEADERS, data={"notes": "x"})
    assert other.read_text() == '{"notes": "secret"}'


def test_the_list_keeps_the_beginning_of_long_notes(serve: Callable[..., FlaskClient], done: JobWriter) -> None:
    notes = "a" * 1000 + " needle " + "b" * 8000 + " thread"
    Path(done.paths.annotations).write_text(json.dumps({"notes": notes}))
    client = serve()
    assert len(str(listed(client)[DONE]["notes"])) == 2000
    assert (set(listed(client, "q=needle")), set(listed(client, "q=thread"))) == ({DONE}, set())
    assert client.get(f"/api/v1/jobs/{DONE}").json["job"]["notes"] == notes
