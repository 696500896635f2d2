"""How a model came about, told with its job's summary."""

from pathlib import Path

import pytest

from afo.events import types as ev
from afo.events.event_tail import EventTail
from afo.events.model_notes import notes_of
from afo_client.jobs.summary import summary_json, summary_text
from afo_client.jobs.view import JobView, ViewFold
from job_writer import DONE, JobWriter, task_id


def test_a_summary_says_what_was_kept_made_new_and_dropped_and_what_the_gate_said(tmp_path: Path) -> None:
    chief = task_id("worker")
    begun = ev.WarmStarted(
        task=chief, generation=1, step=94, source="/models/manifest-g000001-s000000000094-final.json",
        passed_over=("/models/dt=2: the quality gate refused it: auc 0.5",), kept=("user (deep)", "city (deep)"),
        made_new=("device: new (deep)",), dropped=("liked: not in this model (deep)",),
    )  # fmt: skip
    refused = ev.ExportDecided(
        manifest="/m", step=188, allowed=False, checks=(ev.Check("auc", False, "auc 0.6 is not within >=0.7"),)
    )
    job = JobWriter(str(tmp_path), DONE, "clicks").begin().log(begun, begun, refused)
    job.end("FAILED", "quality_gate", "no export")
    log = ViewFold(DONE)
    log.take(EventTail(job.paths.events).poll())
    notes = [
        "warm start: passed over: /models/dt=2: the quality gate refused it: auc 0.5",
        "warm start from /models/manifest-g000001-s000000000094-final.json at step 94: 2 parts kept;"
        " made new: device: new (deep); dropped: liked: not in this model (deep)",
        "quality gate refused (step 188): auc 0.6 is not within >=0.7",
    ]
    assert summary_json(log.view, {"model": "/m"}, 1)["notes"] == notes
    assert log.view.warm_steps == 94
    assert all(f"\n{note}\n" in summary_text(log.view, {"logs": "/l"}) for note in notes)


@pytest.mark.parametrize(
    ("state", "cause", "named", "advised"),
    [
        ("SUCCEEDED", "", True, False),
        ("FAILED", "quality_gate", False, True),
        ("KILLED", "killed_by_user", False, False),
    ],
)
def test_only_a_job_that_succeeded_names_its_model_and_only_one_that_failed_is_advised(
    tmp_path: Path, state: str, cause: str, named: bool, advised: bool
) -> None:
    job = JobWriter(str(tmp_path), DONE, "clicks").begin()
    job.end(state, cause, "so it ended")
    log = ViewFold(DONE)
    log.take(EventTail(job.paths.events).poll())
    text = summary_text(log.view, {"model": "/m", "logs": "/l"})
    assert ("  model  /m" in text) is named
    assert ("advice: " in text) is advised
    assert text.endswith("/l")


def test_a_model_that_was_saved_before_its_job_ended_is_called_that() -> None:
    begun = ev.WarmStarted(
        task=task_id("worker"), generation=1, step=9, source="/m/manifest-g000001-s000000000009.json"
    )
    assert notes_of(begun) == (
        f"warm start from {begun.source}, saved before the end of its job, at step 9: 0 parts kept",
    )


@pytest.mark.parametrize(("before", "words"), [(0, " samples, 687 steps; "), (647, " samples, 40 steps (687 with ")])
def test_a_warm_started_job_tells_its_own_steps_beside_all(before: int, words: str) -> None:
    verdict = ev.JobFinished(
        state="SUCCEEDED", cause="succeeded", diagnostics="", metrics={}, samples=20_000, step=687, seconds=2.0,
        train_seconds=1.0, core_hours=1.0, memory_gb_hours=1.0, restarts=0,
    )  # fmt: skip
    view = JobView(job_id="local_1_1", state="SUCCEEDED", step=687, warm_steps=before, verdict=verdict)
    assert words in summary_text(view, {})


def test_a_clock_that_stepped_back_takes_no_samples_and_metrics_from_the_summary(tmp_path: Path) -> None:
    job = JobWriter(str(tmp_path), DONE, "clicks").begin().end("SUCCEEDED", "succeeded", auc=0.75)
    log = ViewFold(DONE)
    log.take(EventTail(job.paths.events).poll())
    assert log.view.verdict is not None
    assert log.view.verdict.train_seconds == 0
    text = summary_text(log.view, {})
    assert "123,456 samples, 789 steps; 12 min 34 s in all, training for an unknown time" in text
    assert "\nauc 0.75\n" in text
    assert "samples/s" not in text
