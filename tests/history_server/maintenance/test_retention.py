"""Jobs that are too old, too many or too large go; what they exported stays."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo import storage
from afo.errors import NotFound
from afo.formats.units import Duration, Memory
from afo.site.history import Keep
from afo_history_server.maintenance.job_actions import DELETED, remove_job
from afo_history_server.maintenance.retention import Ended, Retention, choose_expired
from afo_history_server.store.job_ids import JobIds
from afo_history_server.store.job_store import JobStore
from afo_history_server.web.app import close_app, create_app
from job_writer import DONE, FAILED, RUNNING, T0, JobWriter
from pages import browser

JOBS = st.lists(
    st.builds(Ended, st.uuids().map(str), st.floats(0, 1000), st.integers(0, 5 << 20), st.sampled_from("abc")),
    unique_by=lambda job: job.job_id,
)
KEEPS = st.builds(
    Keep,
    age=st.none() | st.floats(0, 1000).map(Duration),
    jobs=st.none() | st.integers(1, 9),
    bytes=st.none() | st.integers(0, 9).map(Memory),
)


@given(JOBS, KEEPS)
def test_what_stays_is_within_all_bounds_and_what_goes_is_not(jobs: list[Ended], keep: Keep) -> None:
    now = 1000.0
    gone = choose_expired(jobs, keep, now)
    stays = sorted((job for job in jobs if job.job_id not in gone), key=lambda job: -job.ended)
    assert all(keep.age is None or now - job.ended <= keep.age for job in stays)
    assert keep.jobs is None or len(stays) <= keep.jobs
    assert keep.bytes is None or sum(job.bytes for job in stays) <= keep.bytes << 20
    if keep == Keep():
        assert gone == []
    if keep.age is None and keep.bytes is None and keep.jobs is not None:
        assert len(stays) == min(len(jobs), keep.jobs)
    ages = {job.job_id: job.ended for job in jobs}
    assert [ages[job_id] for job_id in gone] == sorted(ages[job_id] for job_id in gone)


@given(JOBS, KEEPS)
def test_one_user_s_jobs_push_out_nobody_else_s(jobs: list[Ended], keep: Keep) -> None:
    """Whatever many others have, later and larger: a user's jobs stay that are within a fair part of each bound."""
    mine = [job for job in jobs if job.owner == "a"]
    others = len({job.owner for job in jobs} - {"a"})
    few = keep.jobs is None or len(mine) * (others + 1) <= keep.jobs
    small = keep.bytes is None or sum(job.bytes for job in mine) * (others + 1) <= keep.bytes << 20
    if few and small and keep.age is None:
        assert not {job.job_id for job in mine} & set(choose_expired(jobs, keep, 1000.0))


def test_another_s_fake_jobs_are_counted_as_theirs(
    store: JobStore, done: JobWriter, writer: Callable[..., JobWriter], clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """They say that they are alice's, and newer than hers; their directories are eve's."""
    for number in range(1, 6):
        writer(f"application_1763000000000_{70 + number:04d}", user=done.user, begun=T0 + 500).begin().end("FAILED", "")
    monkeypatch.setattr(JobIds, "owner", lambda self, job_id: "alice" if job_id == DONE else "eve")
    clock[0] = T0 + 5000
    gone = Retention(store, Keep(jobs=2), lambda: clock[0]).apply()
    assert len(gone) == 4
    assert DONE not in gone


def day(number: float) -> Duration:
    return Duration(number * 86400)


@pytest.mark.usefixtures("failed", "running")
def test_old_jobs_go_but_models_and_running_jobs_stay(
    store: JobStore, done: JobWriter, clock: list[float], root: str
) -> None:
    done.write_log("worker_0", 0, "stderr", b"x" * 1000)
    storage.write_bytes(f"{done.paths.export}/model/saved_model.pb", b"model")
    storage.make_dirs(f"{root}/{DELETED}application_1_1/logs")
    retention = Retention(store, Keep(age=day(1)), lambda: clock[0])
    assert retention.apply() == []
    clock[0] = T0 + 3 * 86400
    assert retention.apply() == [DONE, FAILED]
    clock[0] += 10
    assert {path.name for path in Path(root).iterdir()} == {DONE, RUNNING}
    left = {path.name for path in Path(done.paths.dir).iterdir()}
    assert left == {"job.json", "verdict.json", "export"}
    assert store.job(DONE)[0].metrics == {"auc": 0.7512}, "the list still knows it"
    assert retention.apply() == []
    app = create_app(root)
    page = browser(app).get(f"/jobs/{DONE}").text
    assert "Its event log is missing" in page
    assert "0.7512" in page
    close_app(app)


def test_the_oldest_go_while_all_together_are_too_large(
    store: JobStore, writer: Callable[..., JobWriter], clock: list[float], root: str
) -> None:
    for number in range(1, 5):
        job = writer(f"local_1763000000000_{number:04d}", begun=T0 + 100 * number).begin()
        job.write_log("worker_0", 0, "stderr", b"x" * 1_000_000).end("FAILED", "user_exception")
    clock[0] = T0 + 5000
    assert len(Retention(store, Keep(bytes=Memory(2)), lambda: clock[0]).apply()) == 2
    assert sorted(path.name[-1] for path in Path(root).iterdir()) == ["3", "4"]


@pytest.mark.usefixtures("done")
def test_without_a_word_nothing_is_deleted(store: JobStore, clock: list[float], root: str) -> None:
    clock[0] = T0 * 2
    storage.make_dirs(f"{root}/{DELETED}application_1_1/logs")  # by somebody, before the server was killed
    assert Retention(store, Keep(), lambda: clock[0]).apply() == []
    assert [path.name for path in Path(root).iterdir()] == [DONE]


def test_what_old_links_lead_to_stays(
    store: JobStore, done: JobWriter, writer: Callable[..., JobWriter], clock: list[float], root: str, tmp_path: Path
) -> None:
    """A link in the place of a job, of a job's events, and of its model."""
    alice = JobWriter(str(tmp_path / "alice"), FAILED, "hers").begin().end("FAILED", "user_exception")
    storage.write_bytes(f"{alice.paths.export}/model/saved_model.pb", b"model")
    hers = {path: path.read_bytes() for path in Path(tmp_path, "alice").rglob("*") if path.is_file()}
    Path(root, FAILED).symlink_to(alice.paths.dir)
    storage.delete(done.paths.logs, recursive=True)
    Path(done.paths.logs).symlink_to(alice.paths.events)
    Path(done.paths.export).symlink_to(alice.paths.export)
    clock[0] = T0 + 3 * 86400
    assert Retention(store, Keep(age=day(1), bytes=Memory(1)), lambda: clock[0]).apply() == [DONE]
    assert {path.name for path in Path(done.paths.dir).iterdir()} == {"job.json", "verdict.json", "export"}
    with pytest.raises(NotFound):
        remove_job(store.files, store.paths(FAILED))
    assert {path: path.read_bytes() for path in Path(tmp_path, "alice").rglob("*") if path.is_file()} == hers


@pytest.mark.parametrize("keep", [Keep(age=day(1)), Keep(bytes=Memory(0))])
def test_a_deep_directory_keeps_no_other_job(
    store: JobStore, done: JobWriter, writer: Callable[..., JobWriter], clock: list[float], keep: Keep
) -> None:
    """Deeper than calls go, and than paths are long."""
    writer(FAILED, begun=T0 + 100).begin().end("FAILED", "user_exception")
    folder = os.open(done.paths.logs, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=folder)
        outer, folder = folder, os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(outer)
    os.close(folder)
    clock[0] = T0 + 3 * 86400
    try:
        assert FAILED in Retention(store, keep, lambda: clock[0]).apply()
        storage.make_dirs(f"{done.paths.root}/{DELETED}{FAILED}/logs")
        Retention(store, Keep(), lambda: clock[0]).apply()
        assert not Path(done.paths.root, DELETED + FAILED).exists()
    finally:
        subprocess.run(["rm", "-r", done.paths.root], check=True)  # pytest itself would not get through
