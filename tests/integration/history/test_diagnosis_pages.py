"""What people ask about a job that failed or was slow, answered by the pages of the history server alone.

Five jobs fail and five are slow for five reasons, all real on the `local` runtime. An answer is words of one page.
"""

import html
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask.testing import FlaskClient

from afo.events import types as ev
from afo_history_server.web.app import close_app, create_app
from click_records import SCHEMA, write_files
from live_job import LiveJob
from pages import browser, words

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

FILES, RECORDS, AT_ONCE = 4, 2500, 3
FOREVER = "import signal\nwhile True: signal.pause()\n"
ONE_RAISES = (
    """import json, os
task = json.loads(os.environ["TF_CONFIG"])["task"]
if task == {"type": "worker", "index": 1}:
    raise ValueError("price is negative in row 7")
"""
    + FOREVER
)
NO_FILE = 'open("/nowhere/vocabulary.txt")\n'


@dataclass
class Folder:
    """Where jobs and their files lie; `jobs` by the names that the questions have for them."""

    path: Path
    jobs: dict[str, LiveJob]

    def submit(self, name: str, job: dict[str, Any]) -> LiveJob:
        """Runs on."""
        file = self.path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"name": name, **job}))
        self.jobs[name] = LiveJob.submit(file, os.environ["AFO_JOBS_ROOT"], "--runtime", "local")
        return self.jobs[name]

    def program(self, name: str, code: str, **keys: Any) -> LiveJob:
        """Without TensorFlow."""
        (self.path / f"{name}.py").write_text(code)
        return self.submit(name, {"program": f"{name}.py", "roles": {"worker": {}}, **keys})

    def model(self, name: str, **keys: Any) -> LiveJob:
        """A small one; sections of the job file are replaced."""
        data = {"schema": "schema.yaml", "train": ["train/*"], "sample_id": "sample_id", "batch_size": 32, "epochs": 2}
        job = {
            "roles": {"ps": {"memory": "1 GiB"}, "worker": {"memory": "1 GiB"}},
            "model": {"hidden_units": [4], "embedding": {"dim": 2}},
            "data": data | keys.pop("data", {}),
        }
        return self.submit(name, job | keys)


def user_exception(folder: Folder) -> None:
    folder.program("user exception", ONE_RAISES, roles={"worker": {"instances": 2}}, restart={"worker": {"max": 0}})


def too_long(folder: Folder) -> None:
    folder.program("too long", FOREVER, timeouts={"job": "4s"})


def no_file(folder: Folder) -> None:
    folder.program("no file", NO_FILE)


def damaged_file(folder: Folder) -> None:
    write_files(folder.path / "damaged", 2, 400)
    file = folder.path / "damaged" / "part-01.tfrecord"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    folder.model("damaged file", data={"train": ["damaged/*"]})


def not_finite(folder: Folder) -> None:
    folder.model("not finite", optimizer={"deep": {"sgd": {"learning_rate": 1e30}}})


def waits_for_input(folder: Folder) -> None:
    """A model that is quicker than its reader: a file is a batch."""
    folder.model("waits for input", data={"batch_size": 2500, "epochs": 12})


def asks_too_much(folder: Folder) -> None:
    folder.model("asks too much", roles={"ps": {"memory": "6 GiB"}, "worker": {"memory": "1 GiB"}})


def saves_too_often(folder: Folder) -> None:
    """A hundred MB each time."""
    large = SCHEMA.to_yaml().replace("hash_buckets: 500", "hash_buckets: 400000")
    (folder.path / "large.yaml").write_text(large)
    folder.model(
        "saves too often", checkpoint={"every": "1s"}, data={"schema": "large.yaml"},
        model={"hidden_units": [4], "embedding": {"dim": 32, "storage": "dense"}},
    )  # fmt: skip


def loses_containers(folder: Folder) -> None:
    job = folder.model("loses containers")
    for number in range(1, 4):
        job.wait(lambda: len(workers(job)) == number, f"attempt {number} of the worker")  # noqa: B023
        job.kill(job.child("worker", 0))


def workers(job: LiveJob) -> list[ev.TaskRegistered]:
    """Its attempts."""
    return [event for event in job.events(ev.TaskRegistered) if event.task.role == "worker"]


def goes_back(folder: Folder) -> None:
    job = folder.model("goes back", checkpoint={"every": "5s"}, data={"epochs": 5})
    job.wait(lambda: bool(job.events(ev.CheckpointWritten)) and job.splits_done() >= 6, "something to lose")
    job.kill(job.trainer("ps", 0))


JOBS: tuple[Callable[[Folder], None], ...] = (
    user_exception, too_long, no_file, damaged_file, not_finite,
    waits_for_input, asks_too_much, saves_too_often, loses_containers, goes_back,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """All ten jobs have ended."""
    folder = Folder(tmp_path_factory.mktemp("questions"), {})
    write_files(folder.path / "train", FILES, RECORDS)
    (folder.path / "schema.yaml").write_text(SCHEMA.to_yaml())

    def run(begin: Callable[[Folder], None]) -> None:
        begin(folder)
        folder.jobs[begin.__name__.replace("_", " ")].verdict()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFO_STATE_DIR", str(folder.path / "state"))
        patch.setenv("AFO_JOBS_ROOT", str(folder.path / "jobs"))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(run, JOBS))
        yield folder


@pytest.fixture(scope="module")
def client(folder: Folder) -> Iterator[FlaskClient]:
    app = create_app(str(folder.path / "jobs"))
    yield browser(app)
    close_app(app)


#: Job, question, the page's part of the address, and the answer as it stands there.
QUESTIONS = (
    ("user exception", "Why did it fail?", "", "ValueError: price is negative in row 7"),
    ("user exception", "Which task was the first?", "", r"Failing task\. worker:1 , attempt 0"),
    ("user exception", "In which line?", "", r'user exception\.py", line 4'),
    ("too long", "Why did it fail?", "", r"job_timeout .*`?timeouts\.job`?"),
    ("too long", "What to change?", "", r"What to do\. Raise the timeout"),
    ("no file", "Which file was missing?", "", "/nowhere/vocabulary.txt"),
    ("no file", "Whose mistake is it?", "", "file_not_found"),
    ("damaged file", "Which file is damaged, and where?", "", r"damaged/part-01\.tfrecord.* (byte|offset|record) \d+"),
    ("damaged file", "Can it be trained on anyway?", "", "max_bad_records"),
    ("not finite", "Why did it fail?", "", r"not_finite"),
    ("not finite", "What to change?", "", r"What to do\. .*learning.rate"),
    ("not finite", "Which learning rate was it, and who set it?", "/settings",
     r"optimizer\.deep\.sgd\.learning_rate 1e\+?30 job file"),
    ("waits for input", "Was it bound by its input?", "",
     r"waited for input [3-9]\d % of the time, mostly (for|while) "),
    ("waits for input", "What to change?", "", r"Fewer, larger files|without compression|more vcores"),
    ("asks too much", "Did it ask for too much?", "", r"roles\.ps\.memory : 6\.0 GiB asked, at most .* used"),
    ("asks too much", "How much would do?", "", r"\d+(\.\d)? [GM]iB would do, and be granted sooner"),
    ("saves too often", "What did it spend its time on?", "", r"Checkpoints took .* of .*"),
    ("saves too often", "What to change?", "", r"Save less often: checkpoint\.every"),
    ("loses containers", "How often did its worker begin again?", "", r"3 containers ended with container_lost"),
    ("loses containers", "On which host?", "", r"worker:0 .* container_lost"),
    ("goes back", "What made it go back?", "", r"ps:0"),
    ("goes back", "To which checkpoint?", "/events", r"GenerationEnded"),
    ("goes back", "How much was read twice?", "/data", r"read again|undone|twice"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "question", "part", "answer"), QUESTIONS, ids=[f"{each[0]}: {each[1]}" for each in QUESTIONS]
)
def test_the_page_answers(
    client: FlaskClient, folder: Folder, name: str, question: str, part: str, answer: str
) -> None:
    page = client.get(f"/jobs/{folder.jobs[name].id}{part}")
    assert page.status_code == 200
    text = html.unescape(words(page.text))
    assert re.search(answer, text), f"{question}\n{text}"


@pytest.mark.slow
def test_the_list_tells_the_failed_from_the_slow(client: FlaskClient, folder: Folder) -> None:
    found = client.get("/api/v1/jobs?state=FAILED").json["jobs"]
    assert {job["name"] for job in found} == {begin.__name__.replace("_", " ") for begin in JOBS[:5]}
    waits = client.get("/fleet").text
    assert "waits for input" in waits.partition("Slowest inputs")[2]
