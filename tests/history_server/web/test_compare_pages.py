"""Jobs side by side: one drawing for all, and the settings in which they differ."""

import re
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from afo import storage
from afo.events import types as ev
from afo.job_dir.code_snapshot import CodeFile, CodeSnapshot, encode_snapshot
from job_writer import DONE, FAILED, RUNNING, T0, JobWriter, task_id
from pages import text, words


@pytest.fixture
def two(writer: Callable[..., JobWriter]) -> None:
    """Of the same name, a day apart."""
    for job_id, begun, queue, auc in ((DONE, T0, "ads", 0.7), (FAILED, T0 + 86400, "free", 0.8)):
        job = writer(job_id, "ctr<b>", begun=begun, queue=queue, tags={"team": queue}).begin()
        for step in (1, 2):
            job.log(ev.Sample(step=step, samples=step, samples_per_s=10.0 * step, input_wait=0.1, loss=1.0 / step))
        job.log(ev.Evaluated(task=task_id("evaluator"), step=2, manifest="m", metrics={"auc": auc}, final=True))
        job.end("SUCCEEDED", "succeeded", auc=auc)


@pytest.mark.usefixtures("two")
def test_curves_and_differences(client: FlaskClient) -> None:
    page = text(client, f"/compare?job={FAILED}&job={DONE}")
    shown = words(page)
    assert "2 jobs side by side ctr&lt;b&gt; 0002 ctr&lt;b&gt; 0001" in shown
    assert "AUC 0.8000 0.7000" in shown
    titles = [words(each) for each in re.findall(r"<figcaption>(.*?)</figcaption>", page)]
    assert titles == ["AUC", "Training loss", "Samples per second", "Waiting for input"]
    assert page.count('class="line c1"') == 4
    assert page.count('class="line c2"') == 0
    assert "ctr&lt;b&gt; 0002 0.5000" in shown, "the legend of the loss"
    settings = shown[shown.index("Settings that differ") :]
    assert "queue free ads" in settings
    assert "tags.team free ads" in settings
    assert "batch_size" not in settings


@pytest.mark.usefixtures("two")
def test_curves_over_steps(client: FlaskClient) -> None:
    page = text(client, f"/compare?job={FAILED}&job={DONE}&over=step")
    assert f"/compare?job={FAILED}&amp;job={DONE}" in page, "the way back"
    assert page.count('class="line c1"') == 4
    assert '<text class="x"' in page


@pytest.mark.usefixtures("two")
def test_curves_begin_at_the_beginning_of_each_job(client: FlaskClient) -> None:
    page = text(client, f"/compare?job={FAILED}&job={DONE}")
    loss = [re.findall(rf'class="line c{n}" d="([^"]*)"', page)[1] for n in (0, 1)]
    assert loss[0] == loss[1], "a day apart, but of the same shape"


def test_jobs_of_the_same_settings(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    for job_id in (DONE, RUNNING):
        writer(job_id, "ctr").begin()
    page = text(client, f"/compare?job={DONE}&job={RUNNING}")
    assert "submitted with the same settings" in page
    assert "The schemas are not compared: " in page, "there is none"


def test_schemas_are_compared_feature_by_feature(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    ours, other = (writer(job_id, "ctr").begin() for job_id in (DONE, RUNNING))
    same = "features: [{name: user, kind: categorical}, {name: age, kind: dense%s}]"
    for job, text_ in ((ours, same % ", transform: log1p"), (other, same % "")):
        storage.write_bytes(job.paths.schema, text_.encode())
    shown = words(text(client, f"/compare?job={DONE}&job={RUNNING}"))
    differing = shown[shown.index("Settings that differ") :]
    assert "data.schema.features.age.transform log1p –" in differing
    assert "user" not in differing
    storage.write_bytes(ours.paths.schema, (same % "").encode(), overwrite=True)
    assert "submitted with the same settings and schema" in text(client, f"/compare?job={DONE}&job={RUNNING}")
    for damage in (b"features: [", b"#" * (130 << 10)):
        storage.write_bytes(ours.paths.schema, damage, overwrite=True)
        assert "The schemas are not compared: " in text(client, f"/compare?job={DONE}&job={RUNNING}")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        (f"job={DONE}", 400),
        (f"job={DONE}&job={DONE}", 400),
        (f"job={DONE}&job={RUNNING}", 404),
        ("&".join(f"job=local_1_{number}" for number in range(9)), 400),
        (f"job={DONE}&job=../..", 404),
    ],
)
def test_what_cannot_be_compared(client: FlaskClient, done: JobWriter, query: str, status: int) -> None:
    text(client, f"/compare?{query}", status)


def test_the_list_offers_it(client: FlaskClient, done: JobWriter) -> None:
    page = text(client, "/")
    assert f'<input type="checkbox" name="job" value="{DONE}"' in page
    assert '<form action="/compare">' in page
    assert '<button formaction="/tensorboard">' in page


def test_code_that_differs(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    for number, job_id in enumerate((DONE, FAILED, RUNNING)):
        job = writer(job_id, f"ctr {number}").begin()
        text_of = f"rate = {number}\n<b>same</b>\n"
        file = CodeFile(path="model.py", size=len(text_of), sha256=f"{number}" * 64, text=text_of)
        storage.write_bytes(job.paths.code, encode_snapshot(CodeSnapshot(files=(file,))))
    page = text(client, f"/compare?job={DONE}&job={FAILED}")
    shown = words(page)
    assert "Code that differs File ctr 0 ctr 1 model.py 000000000000 111111111111" in shown
    assert "- 1 rate = 0 + 1 rate = 1" in shown
    assert "<b>same" not in page
    assert "rate = 0" not in text(client, f"/compare?job={DONE}&job={FAILED}&job={RUNNING}"), "of two jobs alone"
    storage.write_bytes(job.paths.code, b"{")
    assert "The code is not compared" in text(client, f"/compare?job={DONE}&job={RUNNING}")
    storage.delete(job.paths.code)
    assert f"{RUNNING} was submitted without any" in text(client, f"/compare?job={DONE}&job={RUNNING}")
