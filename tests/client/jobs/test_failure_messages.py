"""What is said of a failed job names the task, its host, the evidence and what to do, whatever the cause."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from afo.events import types as ev
from afo.events.event_tail import EventTail
from afo.failures.causes import CAUSES, HARMLESS
from afo_client.cli.explain import _text
from afo_client.jobs.explanation import explain
from afo_client.jobs.failure_feed import FailureNews
from afo_client.jobs.summary import summary_text
from afo_client.jobs.view import ViewFold
from job_writer import LAST_WORDS, JobWriter, task_id

WORKER = task_id("worker", 1, 2)
ENDS = [name for name in CAUSES if name not in HARMLESS]


@pytest.fixture(params=ENDS)
def cause(request: pytest.FixtureRequest) -> str:
    """A cause that a job may fail with."""
    return str(request.param)


@pytest.fixture
def job(tmp_path: Path, cause: str) -> JobWriter:
    """worker:1 on node-7 ended with the cause, in YARN's words or the AM's, and so did the job."""
    writer = JobWriter(str(tmp_path), "local_1763000000000_0001", "clicks").begin().task(WORKER, "node-7")
    writer.log(ev.TaskEnded(task=WORKER, cause=cause, code=1, message=f"words of {cause}", tail=LAST_WORDS))
    return writer


def test_the_summary_and_afo_explain(job: JobWriter, cause: str) -> None:
    job.end("FAILED", cause, f"worker:1 on node-7: words of {cause}; not again", first=WORKER)
    records = list(EventTail(job.paths.events).poll())
    reader = ViewFold(job.paths.job_id)
    reader.take(records)
    for text in (summary_text(reader.view, {"logs": "l"}), "\n".join(_text(explain(reader.view, records), None))):
        assert "failed task: worker:1 (attempt 2) on node-7: " in text
        assert f"words of {cause}" in text
        assert "  | ValueError: no feature <b>age</b>\n" in text
        assert CAUSES[cause].advice in text
        assert CAUSES[cause].summary in text


def test_what_is_told_while_the_job_goes_on(job: JobWriter, cause: str) -> None:
    reader = ViewFold(job.paths.job_id)
    told = FailureNews(job.paths.events).news(replace(reader.view, restarts=1))
    if CAUSES[cause].blame == "nobody":
        assert told == []
        return
    (text,) = told
    assert text.startswith(f"worker:1 (attempt 2) on node-7: {cause}: words of {cause}\n")
    assert ("  | ValueError: no feature <b>age</b>\n" in text) == (CAUSES[cause].blame == "user")
    assert text.endswith(CAUSES[cause].advice)
