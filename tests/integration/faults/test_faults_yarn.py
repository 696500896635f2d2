"""A kill of each kind is survived, `afo kill` leaves nothing, and with `partial` a lost parameter server costs only its
own part; on real YARN."""

import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from adult import JOB_FILE, AdultData, assert_every_sample_once
from afo import storage
from afo.events import types as ev
from afo.site.config import load_config, user_name
from afo.site.user_state import UserState
from afo.yarn.resource_manager import FINAL_STATES
from afo_client.runtimes.yarn.staging import cache_url
from live_job import AFO, LiveJob, afo
from yarn_faults import EPOCHS, KINDS, LONG, SMALL
from yarn_view import YarnView

pytestmark = [pytest.mark.hadoop, pytest.mark.tensorflow, pytest.mark.timeout(1500)]

#: AUC of the same job without faults (0.9180, seed 101), and how far a test lets it be off.
UNDISTURBED, BAND = 0.918, 0.005


def settings(*each: str) -> list[str]:
    """As options of `afo submit`."""
    return [option for setting in each for option in ("--set", setting)]


def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Poll; the test fails if it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def test_a_job_survives_a_kill_of_each_kind(adult: AdultData) -> None:
    job = LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *settings("name=kinds", *LONG, *SMALL))
    job.wait(lambda: bool(job.events(ev.CheckpointWritten)), "a checkpoint")
    choice = random.Random(1)
    for kill in KINDS.values():
        kill(job, choice)
    verdict = job.verdict(900)
    assert verdict.state == "SUCCEEDED", job.story()
    assert_every_sample_once(job, adult.acks(), EPOCHS)
    assert verdict.metrics["auc"] == pytest.approx(UNDISTURBED, abs=BAND)
    nothing_is_left(job)


@pytest.mark.slow
def test_with_partial_recovery_the_other_server_goes_on(adult: AdultData) -> None:
    own = settings("name=partial", "checkpoint.on_ps_loss=partial", *LONG, *SMALL)
    job = LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *own)
    job.wait(lambda: bool(job.events(ev.CheckpointWritten)), "a checkpoint")
    survivor = job.trainer("ps", 0)
    job.kill(job.trainer("ps", 1))
    job.wait(lambda: len(job.events(ev.VariablesReady)) == 2, "the lost server's part restored")
    assert job.trainer("ps", 0) == survivor, "the same process, by its id and its start"
    verdict = job.verdict(900)
    assert verdict.state == "SUCCEEDED", job.story()
    assert [event.kept for event in job.events(ev.VariablesReady)] == [(), (0,)]
    assert_every_sample_once(job, adult.acks(), EPOCHS)
    assert verdict.metrics["auc"] == pytest.approx(UNDISTURBED, abs=BAND)
    nothing_is_left(job)


def nothing_is_left(job: LiveJob) -> None:
    """No process, container, staging file, secret or open port."""
    view = YarnView(job.id)
    until(lambda: view.state() in FINAL_STATES, f"{job.id} is over")
    until(lambda: view.on_nodes() == {}, f"no container of {job.id}")
    job.wait_for_no_process()
    assert not storage.exists(f"hdfs:///user/{user_name()}/.skein/{job.id}")
    assert not storage.exists(f"hdfs:///tmp/logs/{user_name()}/{job.id}.tmp")
    listeners = [event.address for event in job.events(ev.AmStarted)]
    listeners += [address for event in job.events(ev.GenerationStarted) for address in event.ps]
    for address in listeners:
        host, _, port = address.rpartition(":")
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port))) != 0, address


def cached() -> set[str]:
    """Files of the user's cache in HDFS, which outlive a job."""
    return {each.url for folder in storage.list_dir(cache_url(user_name())) for each in storage.list_dir(folder.url)}


def killed(job: LiveJob) -> None:
    """The job is KILLED in every view, and left nothing but its cached files."""
    nothing_is_left(job)
    status = afo("status", job.id, "--json")
    assert '"state":"KILLED"' in status.stdout, status
    assert YarnView(job.id).state() in ("KILLED", "FINISHED")
    assert not UserState(load_config().state_dir).secret_file(job.id).exists()
    assert len(cached()) >= 2


@pytest.mark.slow
def test_kill_right_after_submit(adult: AdultData) -> None:
    job = LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options)
    assert YarnView(job.id).state() in ("SUBMITTED", "ACCEPTED")
    done = afo("kill", job.id)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    killed(job)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Programs started by this test obey SIGINT, also where the tests themselves run in a shell's background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_answered_with_kill_while_tasks_start(adult: AdultData) -> None:
    command = [*AFO, "submit", str(JOB_FILE), *adult.options, "--kill-on-interrupt"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as submit:
        assert submit.stdout is not None
        job = LiveJob(submit.stdout.readline().strip(), adult.jobs_root)
        job.wait(lambda: job.state() == "STARTING", "tasks start")
        submit.send_signal(signal.SIGINT)
        _, errors = submit.communicate(timeout=180)
    assert submit.returncode == 8, errors
    assert "Traceback" not in errors
    killed(job)
    assert job.verdict().state == "KILLED"


@pytest.mark.slow
def test_kill_while_training_and_again_while_ending(adult: AdultData) -> None:
    job = LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *settings(*LONG))
    job.wait(lambda: job.state() == "TRAINING" and job.step() > 0, "it trains")
    before = cached()
    command = [*AFO, "kill", job.id, "--reason", "a test"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as first:
        until(lambda: job.events(ev.JobEnding), "the job is ending")
        second = afo("kill", job.id)
        _, errors = first.communicate(timeout=180)
    assert (first.returncode, second.returncode) == (0, 0), (errors, second.stderr)
    killed(job)
    verdict = job.verdict()
    assert (verdict.state, verdict.cause) == ("KILLED", "killed_by_user")
    assert [event.reason for event in job.events(ev.KillRequested)] == ["a test"]
    assert cached() == before
