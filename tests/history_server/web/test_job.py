"""The parts of a job's pages that say more than its log: curves, timeline, advice, data, settings."""

import html
import re
from collections.abc import Callable

import msgspec
import pytest
from flask.testing import FlaskClient

from afo import storage
from afo.data.prepare.profile import FeatureProfile, Profile, TopValue
from afo.events import event_log
from afo.events import types as ev
from afo.failures.causes import APPLICATION_ATTEMPT_LOST
from afo.formats import json_file
from afo.protocol.export_gate import Check
from afo.protocol.profile_request import OPERATORS, STACKS, Operator, Operators
from afo.rpc.messages import HashTables, ServerPart, Usage
from afo_history_server.model.job_history import Attempt, Checkpoint, DataProgress, JobHistory
from afo_history_server.views.advice import advice
from afo_history_server.views.timeline import MAX_LANES, WIDTH, timeline
from job_writer import DONE, FAILED, RUNNING, T0, JobWriter, task_id
from pages import text, words

MIB = 1 << 20


def page(client: FlaskClient, job: JobWriter, name: str = "") -> str:
    return text(client, f"/jobs/{job.paths.job_id}{name}")


def test_each_page_of_a_job_leads_to_the_others(client: FlaskClient, done: JobWriter) -> None:
    for name in ("", "/data", "/features", "/settings", "/events"):
        found = page(client, done, name)
        assert re.findall(rf'href="/jobs/{DONE}(/\w+)?"', found)[:5] == [
            "",
            "/data",
            "/features",
            "/settings",
            "/events",
        ]
        assert found.count('aria-current="page"') == 2


def test_curves_of_loss_rate_and_metrics(client: FlaskClient, running: JobWriter) -> None:
    for step in range(10, 60, 10):
        loss = None if step == 30 else 1.0 / step
        running.log(ev.Sample(step=step, samples=step, samples_per_s=100.0 * step, input_wait=0.0125, loss=loss))
        running.log(ev.Evaluated(task=task_id("evaluator"), step=step, manifest="m", metrics={"auc": 0.5}, final=False))
    shown = page(client, running)
    titles = [words(each) for each in re.findall(r"<figcaption>(.*?)</figcaption>", shown)]
    assert titles == ["AUC 0.5000", "Training loss 0.0200", "Samples per second 5,000", "Waiting for input 1.25 %"]
    loss = re.findall(r'class="line c0" d="([^"]*)"', shown)[1]
    assert re.sub(r"[^ML]", "", loss) == "MLLML", "six samples, of which the fourth has no loss"


def test_the_loss_of_the_application_master_is_one_restart(client: FlaskClient, running: JobWriter) -> None:
    lost, again = task_id("worker", 3), task_id("worker", 3, 1)
    running.task(lost).log(
        ev.TaskEnded(task=lost, cause=APPLICATION_ATTEMPT_LOST, code=None, message="YARN ended it"),
        ev.AmStarted(am_attempt=2, incarnation=1, address="a:1", host="node-7", pid=1),
        ev.ContainerRequested(task=again, memory=1, vcores=1, reason=f"after {APPLICATION_ATTEMPT_LOST}"),
    )
    restarts = words(page(client, running).partition('<h2 id="restarts">')[2])
    assert "Application Master, attempt 2, start 1 on node-7; tasks that ended with the one before: 1" in restarts
    assert "worker:3, attempt 1" not in restarts
    assert (
        "Application Master attempt 1 application_attempt_lost tasks that ended with it: 1 h node-7 not yet" in restarts
    )


def test_restarts_say_what_they_cost(client: FlaskClient, running: JobWriter) -> None:
    lost, again = task_id("worker"), task_id("worker", 0, 1)
    running.log(
        ev.TaskAtWork(task=lost, generation=1),
        ev.TaskEnded(task=lost, cause="node_lost", code=None, message="<b>gone</b>"),
    ).task(again, host="node-2").log(ev.TaskAtWork(task=again, generation=1))
    shown = page(client, running)
    restarts = words(shown.partition('<h2 id="restarts">')[2])
    assert "Training downtime 4.0 s Share of job time 4 % Task downtime, summed 4.0 s Restarts 1" in restarts
    assert "<code>node_lost</code><small>&lt;b&gt;gone&lt;/b&gt;" in shown
    assert "4.0 s request 1.0 s container 1.0 s start 1.0 s first step 1.0 s" in restarts


def test_an_older_log_does_not_tell_how_long_a_restart_took(client: FlaskClient, running: JobWriter) -> None:
    lost = ev.TaskEnded(task=task_id("worker"), cause="node_lost", code=None, message="gone")
    running.raw(
        event_log.encode_line(event_log.Record(v=2, seq=9, am_attempt=1, incarnation=1, time=T0 + 950, event=lost))
    )
    restarts = words(page(client, running).partition('<h2 id="restarts">')[2])
    assert "Training downtime unknown Share of job time unknown Task downtime, summed unknown" in restarts


def test_a_running_job_shows_how_far_it_is(client: FlaskClient, running: JobWriter) -> None:
    assert "Progress" not in page(client, running), "an older AM does not tell"
    known = ev.Sample(step=1, samples=9, samples_per_s=1.0, input_wait=0.0, loss=0.5, progress=0.25, seconds_left=95.0)
    shown = page(client, running.log(known))
    assert '<progress value="0.25" aria-label="Progress"></progress> 25 %, 1 min 35 s left' in shown


def test_curves_over_steps(client: FlaskClient, running: JobWriter) -> None:
    for step in (100, 110, 200):
        running.log(ev.Sample(step=step, samples=step, samples_per_s=1.0, input_wait=0.0125, loss=1.0 / step))
    shown = page(client, running, "?over=step")
    ticks = [words(each) for each in re.findall(r'<text class="x"[^>]*>([^<]*)<', shown)]
    assert {"100", "150", "200"} <= set(ticks), "the fixture's one is at step 10"
    assert "over=time#curves" in shown
    assert "allowed is time, step" in text(client, f"/jobs/{running.paths.job_id}?over=samples", 400)


def test_one_evaluation_is_a_point(client: FlaskClient, running: JobWriter) -> None:
    running.log(ev.Evaluated(task=task_id("evaluator"), step=3, manifest="m", metrics={"auc": 0.5}, final=False))
    shown = page(client, running)
    assert len(re.findall(r'<circle class="spot few c0"[^>]*><title>[^<]*: 0.5000</title>', shown)) == 1


def test_a_job_without_measurements_has_no_curves(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    assert "<svg" not in page(client, writer(DONE).begin())


def test_the_timeline_has_a_lane_a_task(client: FlaskClient, done: JobWriter) -> None:
    shown = page(client, done)
    assert re.findall(r'<th scope="row">([^<]*)</th>', shown) == ["job", "worker:1", "ps:0"]
    assert "<title>attempt 0: node_lost</title>" in shown
    assert "<title>attempt 1 running on node-2</title>" in shown
    assert "<title>all servers and workers, generation 2: ps:0 was lost; back to m-400</title>" in shown


def attempts(*times: tuple[float, float, float, float], role: str = "worker") -> tuple[Attempt, ...]:
    """One after the other of one task: asked, started, registered, ended."""
    return tuple(
        Attempt(role=role, index=0, attempt=number, requested=asked, started=started, registered=up, ended=ended,
                cause="failed" if ended else "")
        for number, (asked, started, up, ended) in enumerate(times)
    )  # fmt: skip


def test_bars_follow_each_other() -> None:
    job = JobHistory(job_id=DONE, started=T0, attempts=attempts((T0, T0 + 10, T0 + 20, T0 + 60), (T0 + 60, 0, 0, 0)))
    found = timeline(job, T0 + 100)
    assert found is not None
    bars = [(bar.kind, bar.start, bar.width) for bar in found.lanes[1].bars]
    expected = [("waiting", 0, 100), ("starting", 100, 100), ("running", 200, 400), ("waiting", 600, 400)]
    assert bars == expected
    assert [(mark.kind, mark.at) for mark in found.lanes[1].marks] == [("failed", 600)]


def test_of_many_tasks_those_that_failed_are_drawn() -> None:
    fine = [Attempt(role="worker", index=n, attempt=0, requested=T0, registered=T0 + 1) for n in range(200)]
    bad = Attempt(role="worker", index=200, attempt=0, requested=T0, registered=T0 + 1, ended=T0 + 2, cause="failed")
    found = timeline(JobHistory(job_id=DONE, started=T0, attempts=(*fine, bad)), T0 + 5)
    assert found is not None
    assert (len(found.lanes), found.left_out) == (1 + MAX_LANES, 201 - MAX_LANES)
    assert found.lanes[-1].name == "worker:200"
    assert all(bar.start + bar.width <= WIDTH + 1 for lane in found.lanes for bar in lane.bars)


def test_clocks_that_disagree_make_no_negative_bar() -> None:
    job = JobHistory(job_id=DONE, started=T0, attempts=attempts((T0 + 9, T0 + 5, T0 + 7, T0 + 3)))
    found = timeline(job, T0 + 10)
    assert found is not None
    assert all(bar.width >= 1 and 0 <= bar.start <= WIDTH for bar in found.lanes[1].bars)


RAN = {"requested": T0, "started": T0 + 1, "registered": T0 + 1, "ended": T0 + 1001}


@pytest.mark.parametrize(
    ("job", "subject", "said"),
    [
        ({"input_wait": 0.63}, "input", "waited for input 63 % of the time. Give"),
        ({"input_wait": 0.05, "input_bound": "files"}, "input", "input 5 % of the time, mostly for a file"),
        ({"input_wait": 0.1, "input_bound": "reading"}, "input", "mostly while records were taken out of files."),
        ({"input_wait": 0.1, "input_bound": "preparing"}, "input", "parsed and hashed. Give the workers more `vcores`"),
        (
            {"attempts": (Attempt(role="worker", index=3, attempt=0, memory=8192, peak_rss=2150 * MIB, **RAN),)},
            "memory", "`roles.worker.memory`: 8.0 GiB asked, at most 2.1 GiB used (worker:3). 2.8 GiB would do",
        ),
        (
            {"attempts": (Attempt(role="ps", index=0, attempt=0, memory=1024, peak_rss=1000 * MIB, **RAN),)},
            "memory", "Ask for 1.2 GiB",
        ),
        (
            {"attempts": (Attempt(role="ps", index=0, attempt=0, vcores=8, cpu_s=800.0, **RAN),)},
            "cores", "of 8 cores 10 % of the time used",
        ),
        (
            {"seconds": 100.0, "checkpoints": (Checkpoint(time=T0, seconds=30.0, step=1, generation=1, manifest="",
                                                          final=False),)},
            "checkpoints", "Checkpoints took 30 s of 1 min 40 s",
        ),
        ({"seconds": 200.0, "attempts": attempts((T0, T0 + 90, T0 + 91, T0 + 200))}, "containers",
         "worker:0 waited 1 min 30 s for its container, of 3 min 20 s"),
        (
            {"attempts": tuple(Attempt(role="worker", index=n, attempt=0, ended=T0, cause="memory_limit")
                               for n in range(3))},
            "restarts", "3 containers ended with `memory_limit`",
        ),
        ({"data": DataProgress(bad=1234)}, "records", "1,234 records were skipped"),
    ],
)  # fmt: skip
def test_advice_follows_from_a_measurement(job: dict[str, object], subject: str, said: str) -> None:
    [found] = advice(JobHistory(job_id=DONE, started=T0, **job))
    assert (found.subject, said in f"{found.measured} {found.change}") == (subject, True), found


def test_a_job_that_does_well_gets_no_advice() -> None:
    worker = Attempt(role="worker", index=0, attempt=0, memory=2048, vcores=2, peak_rss=1500 * MIB, cpu_s=1500.0, **RAN)
    job = JobHistory(job_id=DONE, started=T0, seconds=1000.0, input_wait=0.049, attempts=(worker,))
    assert advice(job) == ()


def test_advice_stands_on_the_page(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    worker = task_id("worker")
    job = writer(DONE).begin().task(worker)
    job.log(ev.TaskEnded(task=worker, cause="succeeded", code=0, message="", usage=Usage(peak_rss=2000 * MIB)))
    shown = page(client, job)
    section = words(shown[shown.index('id="advice"') : shown.index("</section>", shown.index('id="advice"'))])
    assert "roles.worker.memory : 2.0 GiB asked, at most 2.0 GiB used (worker:0). Ask for 2.5 GiB" in section


def done_split(row: int, epoch: int, count: int = 10, bad: int = 0) -> ev.SplitDone:
    return ev.SplitDone(task=task_id("worker"), split=row, epoch=epoch, count=count, xor=1, bad=bad,
                        first_bad="file:///a at 77" if bad else "")  # fmt: skip


def test_a_pass_that_applied_other_records_than_one_before_is_told(
    client: FlaskClient, writer: Callable[..., JobWriter]
) -> None:
    job = writer(RUNNING, files=("a", "b"), epochs=2).begin().log(done_split(0, 0), done_split(1, 0))
    assert "other records" not in words(page(client, job))
    job.log(done_split(0, 1, count=15))
    told = "a pass over a file applied other records than an earlier one (split 0 in epoch 2, 15 records after 10)"
    assert told in words(page(client, job))


def test_data_that_a_return_has_undone_are_not_counted(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    job = writer(RUNNING, files=("hdfs://n/a", "hdfs://n/<b>"), epochs=3).begin()
    job.log(done_split(0, 0), done_split(1, 0, 20), done_split(0, 1, bad=3))
    saved = ((0, 1, 10, 1), (1, 1, 5, 1))
    job.log(
        ev.CheckpointWritten(task=task_id("worker"), generation=1, step=9, manifest="m", positions=saved, final=False)
    )
    job.log(done_split(1, 1, 20), done_split(0, 2))
    facts = words(page(client, job, "/data"))
    assert "Passes over files 5 of 6 Records applied 70 Skipped as damaged 3 Undone and read again 0" in facts
    job.log(ev.GenerationEnded(generation=1, reason="ps:0 was lost", manifest="m"))
    facts = words(page(client, job, "/data"))
    assert "Passes over files 3 of 6 Records applied 40 Skipped as damaged 3 Undone and read again 30" in facts
    assert "hdfs://n/a file:///a at 77 2 10 3 worker:0" in facts
    assert "hdfs://n/&lt;b&gt; 1 20 0 worker:0" in facts
    job.log(ev.GenerationEnded(generation=2, reason="ps:0 was lost", manifest=""))
    assert "Passes over files 0 of 6" in words(page(client, job, "/data"))


def test_with_partial_recovery_data_stay(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    job = writer(RUNNING, files=("a",)).begin().log(done_split(0, 0))
    job.log(ev.GenerationEnded(generation=1, reason="ps:0 was lost", manifest="", kept=(1,)))
    assert "Passes over files 1 of 1" in words(page(client, job, "/data"))


def test_a_restore_from_further_back_says_why(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    job, chief = writer(RUNNING).begin(), task_id("worker")
    job.log(ev.VariablesReady(task=chief, generation=2, restored="m-4", step=4, passed_over=("m-5 is damaged",)))
    assert "training, generation 2 passed over: m-5 is damaged" in words(page(client, job))


def test_many_files_come_in_pages(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    job = writer(RUNNING, files=tuple(f"file-{number}" for number in range(450))).begin()
    assert "Page 2 of 3" in page(client, job, "/data?page=2")
    assert re.findall(r"file-\d+", page(client, job, "/data?page=3")) == [
        f"file-{number}" for number in range(400, 450)
    ]
    text(client, f"/jobs/{RUNNING}/data?page=4", 400)


def write_settings(job: JobWriter, tree: dict[str, object], inherited: dict[str, str], **environment: str) -> None:
    """As the client writes `job.json`."""
    document = json_file.decode(storage.read_bytes(job.paths.job), dict, job.paths.job)
    document["job"]["environment"] = {"variables": environment}
    layers = {key: {"place": place, "folder": "/"} for key, place in inherited.items()}
    given = {"dt": "2026-11-20", "token": "hush-3"}
    document["source"] = {"tree": tree, "folder": "/", "variables": given, "inherited": layers}
    storage.write_bytes(job.paths.job, json_file.encode(document))


def test_settings_say_who_said_them(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    job = writer(DONE, "x")
    tree = {"name": "x", "roles": {"worker": {"instances": 2}}, "queue": "q"}
    inherited = {"queue": "/etc/afo/site.yaml:7", "data": "--set data.schema=hush-4"}
    write_settings(job, tree, inherited, API_TOKEN="hush-1", aws_access_key="hush-2", DB_PASSWD="", MODE="fast")
    shown = page(client, job, "/settings")
    said, defaults = (html.unescape(words(part)) for part in shown.split('<details id="defaults">'))
    for expected in (
        "name x job file", "roles.worker.instances 2 job file", "queue default /etc/afo/site.yaml:7",
        "data.schema schema.yaml --set", "--var dt 2026-11-20 command line", "--var token (not shown)",
    ):  # fmt: skip
        assert expected in said, expected
    for expected in ("API_TOKEN (not shown) default", "aws_access_key (not shown) default", "MODE fast default"):
        assert expected in defaults, expected
    assert "hush" not in shown


def test_settings_have_their_units(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    job = writer(DONE)
    write_settings(job, {"train": {"eval_every": "0.5 epochs"}, "checkpoint": {"every": "300"}}, {})
    document = msgspec.json.decode(storage.read_bytes(job.paths.job))
    document["job"]["train"]["eval_every"] = "2000 steps"
    document["job"]["checkpoint"]["every"] = 300.0
    storage.write_bytes(job.paths.job, msgspec.json.encode(document))
    shown = html.unescape(words(page(client, job, "/settings")))
    for expected in (
        "train.eval_every 0.5 epochs (2000 steps) job file", "checkpoint.every 5m job file", "worker.memory 2 GiB",
        "restart.backoff.initial 1s",
    ):  # fmt: skip
        assert expected in shown, expected


def test_a_job_that_trains_and_is_silent_is_spoken_of(
    client: FlaskClient, running: JobWriter, clock: list[float]
) -> None:
    running.log(ev.Sample(step=9, samples=900, samples_per_s=1.0, input_wait=0.0, loss=0.5))
    clock[0] = running.at + 80
    assert "No progress reported" not in page(client, running)
    clock[0] = running.at + 200
    assert "No progress reported for 3 min 20 s" in words(page(client, running))


def test_checkpoints_that_were_not_evaluated_are_told(client: FlaskClient, running: JobWriter) -> None:
    assert "not evaluated" not in page(client, running)
    for passed_over in (2, 5):
        running.log(ev.Evaluated(task=task_id("evaluator"), step=800, manifest="m", metrics={"auc": 0.7}, final=False,
                                 passed_over=passed_over))  # fmt: skip
    assert "7 checkpoints were not evaluated, as newer ones came" in page(client, running)


def test_events_of_one_type_and_of_one_task(client: FlaskClient, running: JobWriter) -> None:
    for row in range(120):
        running.log(ev.SplitLeased(task=task_id("worker", row % 2), split=row, epoch=0, resume=False))
    for question, number, rest in (("", 50, True), ("?type=SplitLeased&task=worker:1", 50, True),
                                   ("?type=SplitLeased&task=worker:1&page=2", 10, False),
                                   ("?task=ps:7", 0, False)):  # fmt: skip
        shown = page(client, running, f"/events{question}")
        assert shown.count("<td>SplitLeased</td>") == number
        assert ("Older →" in shown) == rest
    assert "60 of all" in words(page(client, running, "/events?task=worker:1&type=SplitLeased"))
    for wrong in ("page=9", "kind=x", "type=TaskStarted", f"type={'x' * 201}"):
        assert "allowed" in text(client, f"/jobs/{running.paths.job_id}/events?{wrong}", 400)


def test_settings_that_cannot_be_read_say_so(client: FlaskClient, failed: JobWriter) -> None:
    storage.write_bytes(failed.paths.job, b"[]")
    assert "no job that this version of afo understands" in text(client, f"/jobs/{FAILED}/settings", 502)


def test_what_a_task_uses_over_time(client: FlaskClient, running: JobWriter) -> None:
    worker = task_id("worker", 3)
    running.task(worker)
    for number in range(200):
        use = ev.TaskUse(task=worker, rss=(500 + number) * MIB, peak_rss=700 * MIB, cpu_s=number * 0.5)
        running.log(ev.TasksUsed(tasks=(use,)))
    attempt = next(
        each for each in client.get(f"/api/v1/jobs/{RUNNING}").json["job"]["attempts"] if each["index"] == 3
    )  # fmt: skip
    points = attempt["use"]
    assert 30 <= len(points) <= 61
    assert (points[0]["rss"], points[0]["cores"], points[-1]["rss"]) == (500 * MIB, None, 699 * MIB)
    assert {point["cores"] for point in points[1:]} == {0.5}
    row = re.search(r'<tr id="worker-3-0">.*?</tr>', page(client, running), re.S)
    assert row is not None
    assert "<title>699 MiB at last, at most 700 MiB</title>" in row[0]
    assert "<title>0.5000 cores at last</title>" in row[0]
    assert "700 MiB of 2.0 GiB" in words(row[0])


def test_a_process_that_began_anew_has_used_no_negative_time(client: FlaskClient, running: JobWriter) -> None:
    worker = task_id("worker", 3)
    running.task(worker)
    for cpu in (5.0, 1.0, 2.0):
        running.log(ev.TasksUsed(tasks=(ev.TaskUse(task=worker, rss=MIB, peak_rss=MIB, cpu_s=cpu),)))
    attempts = client.get(f"/api/v1/jobs/{RUNNING}").json["job"]["attempts"]
    assert [point["cores"] for point in attempts[-1]["use"]] == [None, None, 1.0]


def test_what_a_model_began_with_and_whether_it_was_exported(client: FlaskClient, running: JobWriter) -> None:
    checks = (Check("auc", False, "auc 0.61 is not within >=0.7"), Check("log_loss", True, "log_loss 0.3 is within <1"))
    running.log(
        ev.WarmStarted(
            task=task_id("worker"), generation=1, step=40, source="hdfs://a/manifest-40", kept=("age", "city"),
            made_new=("device: new",), dropped=("liked: not in this model",), passed_over=("m-39: refused",),
        ),
        ev.ExportDecided(manifest="m-80", step=80, allowed=False, checks=checks),
        ev.Sample(step=80, samples=9, samples_per_s=1.0, input_wait=0.4, loss=0.5),
    )  # fmt: skip
    found = words(page(client, running))
    for part in ("Step 80, 40 of them of this job", "Initialized from hdfs://a/manifest-40 , step 40: 2 parts kept, ",
                 "newly initialized device: new, dropped liked: not", "Skipped: m-39: refused",
                 "Not exported: m-80 , step 80.", "auc 0.61 is not within"):  # fmt: skip
        assert part in found


def test_checkpoints_that_become_no_version_are_told_until_one_does(client: FlaskClient, running: JobWriter) -> None:
    check = Check("auc", False, "auc 0.61 is not within >=0.7", ">=0.7", 0.61)
    for step in (40, 80):
        running.log(ev.VersionWithheld(step=step, manifest=f"m-{step}", checks=(check,), since=7))
    sentence = "no version is exported of 2 checkpoints in a row, the last of step 80: auc 0.61 is not within"
    assert sentence in words(page(client, running))
    running.log(
        ev.VersionExported(
            task=task_id("worker"), version=8, parent=None, step=90, manifest="m-90", bytes=1, seconds=1.0
        )
    )
    found = words(page(client, running))
    assert "no version is exported" not in found
    assert "one version is exported: 8 of step 90, 0.0 MiB in 1.0 s." in found


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("", "To be exported"), ("SUCCEEDED", "Exported"),
        ("FAILED", "Chosen for an export that was not completed"),
    ],
)  # fmt: skip
def test_metrics_are_those_of_the_checkpoint_that_is_exported(
    client: FlaskClient, running: JobWriter, state: str, sentence: str
) -> None:
    evaluator = task_id("evaluator")
    for step, auc in ((40, 0.849), (80, 0.8397)):
        running.log(
            ev.Evaluated(task=evaluator, step=step, manifest=f"m-{step}", metrics={"auc": auc}, final=step == 80)
        )
    running.log(ev.ExportDecided(manifest="m-40", step=40, allowed=True, metrics={"auc": 0.849}))
    if state:
        running.end(state, "succeeded", auc=0.849)
    assert f"{sentence}: m-40 , step 40: auc 0.8490." in words(page(client, running))
    assert client.get(f"/api/v1/jobs/{RUNNING}").json["job"]["metrics"] == {"auc": 0.849}


def test_a_profile_is_linked_once_it_is_there(client: FlaskClient, running: JobWriter) -> None:
    worker = task_id("worker")
    running.log(ev.OrderGiven(task=worker, order=4, kind="profile", user="alice"))
    assert "Profiles" not in page(client, running)
    running.log(
        ev.OrderDone(task=worker, order=4, failed=False),
        ev.OrderGiven(task=worker, order=5, kind="profile", user="alice"),
        ev.OrderDone(task=worker, order=5, failed=True, problem="it takes no <profile>"),
    )
    found = page(client, running)
    assert "could not be taken: it takes no &lt;profile&gt;" in found
    assert f'href="/jobs/{RUNNING}/profiles/profile-worker_0-4"' in found
    assert "profile-worker_0-5" not in found
    folder = f"{running.paths.summaries}/profile-worker_0-4"
    hot = Operator(name="MatMul<b>", milliseconds=1500.0, calls=300)
    operators = Operators(seconds=3.0, steps=1, operators=(hot,))
    storage.write_bytes(f"{folder}/{OPERATORS}", json_file.encode(operators))
    storage.write_bytes(f"{folder}/{STACKS}", b"File <model.py>, line 1")
    storage.write_bytes(f"{folder}/plugins/profile/2026/h.xplane.pb", b"\x00trace")
    shown = page(client, running, "/profiles/profile-worker_0-4")
    assert "MatMul&lt;b&gt; 1,500 50 % 300 5,000" in words(shown)
    assert "seconds, in which it finished 1 step, by" in words(shown)
    assert "It contains no whole step" in shown
    assert "File &lt;model.py&gt;, line 1" in shown
    answer = client.get(f"/jobs/{RUNNING}/profiles/profile-worker_0-4/download")
    assert (answer.data, answer.content_type) == (b"\x00trace", "application/octet-stream")
    for name in ("profile-worker_0-5", "..", "worker_0", "profile-worker_0-4%2f.."):
        for more in ("", "/download"):
            assert client.get(f"/jobs/{RUNNING}/profiles/{name}{more}").status_code == 404


def test_checkpoints_say_how_large_the_hash_tables_were(client: FlaskClient, running: JobWriter) -> None:
    def written(step: int, tables: HashTables | None) -> ev.CheckpointWritten:
        return ev.CheckpointWritten(
            task=task_id("worker"), generation=1, step=step, manifest=f"m-{step}", positions=(), final=False,
            hash_tables=tables,
        )  # fmt: skip

    running.log(written(400, None))
    assert "Rows of hash tables" not in page(client, running)
    running.log(written(800, HashTables(rows=25_727, bytes=3 << 20, evicted=932)))
    found = words(page(client, running))
    assert "25,727 3.0 MiB 932 m-800" in found
    assert "1 m-400" in found, "one that an older afo wrote says nothing of them"


def test_checkpoints_say_which_server_was_slow(client: FlaskClient, running: JobWriter) -> None:
    def written(step: int, *servers: ServerPart) -> ev.CheckpointWritten:
        return ev.CheckpointWritten(
            task=task_id("worker"), generation=1, step=step, manifest=f"m-{step}", positions=(), final=False,
            servers=servers,
        )  # fmt: skip

    running.log(written(400))
    assert "Slowest server" not in page(client, running)
    quick, slow = ServerPart(server=0, bytes=3 << 20, read_s=0.25, write_s=0.5), ServerPart(server=7, read_s=31.5)
    running.log(written(800, quick, slow, *(ServerPart(server=number) for number in range(10, 40))))
    found = words(page(client, running))
    assert "ps:7 31.5 s m-800" in found
    assert "Step 800 by parameter server" in found
    assert "ps:7 0 B 31.5 s 0.0 s ps:0 3.0 MiB 0.2 s 0.5 s ps:10" in found
    assert "ps:39" not in found, "of many servers the slowest are kept"
    assert "1 m-400" in found, "one that an older afo wrote says nothing of them"


def test_staleness_is_drawn_where_it_is_told(client: FlaskClient, running: JobWriter) -> None:
    def sample(step: int, staleness: float | None) -> ev.Sample:
        return ev.Sample(step=step, samples=step, samples_per_s=1.0, input_wait=0.0, loss=0.5, staleness=staleness)

    running.log(sample(1, None))
    assert "Staleness" not in page(client, running)
    running.log(sample(2, 0.0), sample(3, 0.0))
    assert "Staleness, updates <b>0.0000</b>" in page(client, running)
    running.log(sample(4, 3.25))
    assert "Staleness, updates <b>3.2500</b>" in page(client, running)


def test_statistics_of_features(client: FlaskClient, done: JobWriter) -> None:
    assert "No feature statistics are kept" in page(client, done, "/features")
    plain = FeatureProfile(name="b<i>", kind="bytes", coverage=0.5, length=1, distinct=2, drift=0.01,
                           top=(TopValue("<x>", 0.75),))  # fmt: skip
    moved = FeatureProfile(name="age", kind="float", coverage=1, length=1, distinct=70, mean=38.5, std=13.25, drift=0.5,
                           quantiles=(1, 2, 3, 4, 5), not_finite=0.125, correlation=-0.25,
                           label_info=0.0625)  # fmt: skip
    profile = Profile(records=2000, evaluation=1000, label="click", positive=0.25, features=(plain, moved))
    storage.write_bytes(done.paths.features, msgspec.json.encode(profile))
    shown = words(page(client, done, "/features"))
    assert "Features 2 Training records read 2,000 Evaluation records read 1,000" in shown
    assert "click above 0 25.00 % Drifted 1" in shown
    rows = shown[shown.index("Most frequent") :]
    assert "age float 100.0 % 1 70 12.50 % 0.500 6.25 % -0.250 38.5 13.25 1 2 3 4 5" in rows, "the most drifted first"
    assert "b&lt;i&gt; bytes 50.0 % 1 2 – 0.010 – –" in rows[rows.index("age") :]
    assert "&lt;x&gt; 75 %" in rows
    storage.write_bytes(done.paths.features, b"{")
    assert "features.json: no profile" in client.get(f"/jobs/{DONE}/features").text.lower()


def test_saving_is_blamed_on_what_saves(done: JobWriter) -> None:
    saved = Checkpoint(time=T0, seconds=30.0, step=1, generation=1, manifest="", final=False)
    job = JobHistory(job_id=DONE, started=T0, seconds=100.0, checkpoints=(saved,))
    for params, named in (({}, False), ({"train.eval_every": "30s"}, True)):
        [found] = advice(msgspec.structs.replace(job, params=params))
        assert ("`train.eval_every`" in found.change, "`checkpoint.every`" in found.change) == (named, True)
