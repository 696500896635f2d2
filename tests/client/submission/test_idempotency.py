"""One job for each idempotency key, whoever asks for it, how often, and whatever dies in between."""

import errno
import json
import os
import stat
import threading
from pathlib import Path

import pytest

from afo import storage
from afo.errors import AfoError, AlreadyExists, ClusterUnreachable, NoSpaceLeft, PermissionDenied, UsageError
from afo.site import user_state
from afo_client.cli.main import run
from afo_client.submission import idempotency
from afo_client.submission.idempotency import Once
from fake_runtime import FakeRuntime, made_by_another, small_job, use_fake_runtime


class Cluster:
    """Starts jobs and finds them by their mark, as YARN does."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self._lock = threading.Lock()

    def start(self, mark: str) -> str:
        with self._lock:
            return self.jobs.setdefault(mark, f"application_1_{len(self.jobs) + 1:04d}")

    def find_marked(self, mark: str) -> str | None:
        return self.jobs.get(mark)


def once_for(folder: Path, cluster: Cluster, key: str = "daily-2026-11-21", user: str = "ann") -> Once:
    return Once(str(folder), user, key, cluster)  # type: ignore[arg-type]


def always(job_id: str) -> bool:
    return True


def never_started(mark: str) -> str:
    raise AssertionError("nothing is to be started here")


def without_room(path: Path, data: bytes) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def the_claim(folder: Path) -> Path:
    return next(folder.glob("once-*/*/1"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "POLL_S", 0.01)


def test_of_many_at_once_one_starts_it(tmp_path: Path) -> None:
    cluster, answers = Cluster(), []
    barrier = threading.Barrier(8)

    def client() -> None:
        barrier.wait()
        answers.append(once_for(tmp_path, cluster).run(cluster.start, always))

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {job_id for job_id, _ in answers} == {"application_1_0001"}
    assert sorted(new for _, new in answers) == [False] * 7 + [True]
    assert len(cluster.jobs) == 1


def test_keys_and_users_are_apart(tmp_path: Path) -> None:
    cluster = Cluster()
    for key, user in (("a", "ann"), ("b", "ann"), ("a", "bob")):
        assert once_for(tmp_path, cluster, key, user).run(cluster.start, always)[1]
    assert len(cluster.jobs) == 3
    # None of them lies in a folder that the first one owns.
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "once-ann": 0o700,
        "once-bob": 0o700,
    }


def test_a_folder_that_another_user_has_made_names_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    once_for(tmp_path, cluster).run(cluster.start, always)
    made_by_another(monkeypatch, tmp_path / "once-ann")
    with pytest.raises(PermissionDenied, match="once-ann was made by another user"):
        once_for(tmp_path, cluster).run(never_started, always)


def test_another_one_where_the_first_will_not_do(tmp_path: Path) -> None:
    cluster = Cluster()
    first = once_for(tmp_path, cluster).run(cluster.start, always)[0]
    second, new = once_for(tmp_path, cluster).run(cluster.start, lambda job_id: job_id != first)
    assert new
    assert second != first
    assert once_for(tmp_path, cluster).run(never_started, lambda job_id: job_id != first) == (second, False)


def test_what_was_refused_can_be_tried_again(tmp_path: Path) -> None:
    cluster = Cluster()

    def refuse(mark: str) -> str:
        raise PermissionDenied("not into this queue")

    with pytest.raises(PermissionDenied):
        once_for(tmp_path, cluster).run(refuse, always)
    assert once_for(tmp_path, cluster).run(cluster.start, always)[1]


def test_a_job_whose_client_died_is_found_by_its_mark(tmp_path: Path) -> None:
    cluster = Cluster()

    def start_and_lose_the_answer(mark: str) -> str:
        cluster.start(mark)
        raise ClusterUnreachable("the answer was lost")

    with pytest.raises(ClusterUnreachable):
        once_for(tmp_path, cluster).run(start_and_lose_the_answer, always)
    assert once_for(tmp_path, cluster).run(never_started, always) == ("application_1_0001", False)


def test_a_client_that_is_ended_behind_its_submission_leaves_the_key_to_its_job(tmp_path: Path) -> None:
    cluster = Cluster()

    def start_and_be_ended(mark: str) -> str:
        cluster.start(mark)
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        once_for(tmp_path, cluster).run(start_and_be_ended, always)
    assert once_for(tmp_path, cluster).run(never_started, always) == ("application_1_0001", False)


def test_a_job_that_runs_has_started_whatever_else_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    write = storage.write_bytes

    def full(url: str, *rest: object, **more: object) -> None:
        if url.endswith(".job"):
            raise NoSpaceLeft(f"cannot write {url}: No space left on device")
        write(url, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(idempotency.storage, "write_bytes", full)
    assert once_for(tmp_path, cluster).run(cluster.start, always) == ("application_1_0001", True)
    assert "warning: application_1_0001 runs, and is found by its mark alone" in capsys.readouterr().err
    monkeypatch.undo()
    assert once_for(tmp_path, cluster).run(never_started, always) == ("application_1_0001", False)


def test_an_unreachable_cluster_that_took_nothing_blocks_nobody(tmp_path: Path) -> None:
    cluster = Cluster()

    def unreachable(mark: str) -> str:
        raise ClusterUnreachable("nobody there")

    with pytest.raises(ClusterUnreachable):
        once_for(tmp_path, cluster).run(unreachable, always)
    assert once_for(tmp_path, cluster).run(cluster.start, always)[1]


def test_a_claim_without_a_job_is_given_up_after_its_lease(tmp_path: Path) -> None:
    cluster = Cluster()
    once_for(tmp_path, cluster).run(cluster.start, always)
    claim = the_claim(tmp_path)
    Path(f"{claim}.job").unlink()
    cluster.jobs.clear()
    old = claim.stat().st_mtime - idempotency.LEASE_S - 1
    os.utime(claim, (old, old))
    job_id, new = once_for(tmp_path, cluster).run(cluster.start, always)
    assert (new, list(cluster.jobs.values())) == (True, [job_id])
    assert claim.with_name("2.job").read_text() == job_id


class Clock:
    """A clock that goes on by what is slept, up to a wait that nobody should have."""

    def __init__(self) -> None:
        self.slept = 0.0

    def time(self) -> float:
        return 1_800_000_000.0 + self.slept

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        assert self.slept < 3 * idempotency.LEASE_S, "the claim is waited for without end"


def test_a_claim_of_times_to_come_is_given_up_after_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = Cluster(), Clock()
    once_for(tmp_path, cluster).run(cluster.start, always)
    claim = the_claim(tmp_path)
    Path(f"{claim}.job").unlink()
    cluster.jobs.clear()
    os.utime(claim, (4_000_000_000, 4_000_000_000))
    monkeypatch.setattr(idempotency, "time", clock)
    monkeypatch.setattr(idempotency, "POLL_S", 10.0)
    job_id, new = once_for(tmp_path, cluster).run(cluster.start, always)
    assert (new, list(cluster.jobs.values())) == (True, [job_id])
    assert clock.slept == idempotency.LEASE_S + 10


def test_others_are_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    once_for(tmp_path, cluster).run(cluster.start, always)
    claim = the_claim(tmp_path)
    Path(f"{claim}.job").unlink()
    cluster.jobs.clear()
    answers: list[tuple[str, bool]] = []
    waiting = threading.Thread(target=lambda: answers.append(once_for(tmp_path, cluster).run(never_started, always)))
    waiting.start()
    storage.write_bytes(str(claim.parent / "1.job"), b"application_7_0007")
    waiting.join()
    assert answers == [("application_7_0007", False)]


@pytest.mark.parametrize("key", ["", "  ", "a\nb", "x" * 1001])
def test_keys_that_are_none(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match="--idempotency-key"):
        once_for(tmp_path, Cluster(), key)


def test_a_name_taken_by_what_is_started_is_no_lost_race(tmp_path: Path) -> None:
    def taken(mark: str) -> str:
        raise AlreadyExists("output exists")

    with pytest.raises(AfoError, match="output exists"):
        once_for(tmp_path, Cluster()).run(taken, always)


class TestVerb:
    @pytest.fixture
    def submit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        small_job(tmp_path, monkeypatch)
        job = str(tmp_path / "job.yaml")
        return ["submit", job, "--runtime", "local", "--var", "dt=2026-01-02", "--idempotency-key", "k"]

    def test_the_second_submission_follows_the_first_job(
        self, submit: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake = use_fake_runtime(monkeypatch, "RUNNING")
        assert run([*submit, "--detach", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["new"] is True
        fake.end("SUCCEEDED")
        assert run(submit) == 0
        captured = capsys.readouterr()
        assert captured.out == f"{fake.job_id}\n"
        assert "was submitted with this idempotency key before" in captured.err
        assert len(fake.submitted) == 1
        assert fake.submitted[0][0].once

    @pytest.mark.parametrize(("state", "code"), [("FAILED", 1), ("KILLED", 8)])
    def test_a_failed_job_stands_for_its_key_unless_another_is_wanted(
        self, submit: list[str], monkeypatch: pytest.MonkeyPatch, state: str, code: int
    ) -> None:
        fake: FakeRuntime = use_fake_runtime(monkeypatch, state)
        assert run(submit) == code
        assert run(submit) == code
        assert len(fake.submitted) == 1
        fake.state = "SUCCEEDED"
        assert run([*submit, "--retry"]) == 0
        assert run([*submit, "--retry"]) == 0
        assert len(fake.submitted) == 2

    def test_wrong_data_release_the_key(
        self, submit: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
        (tmp_path / "a.tfrecord").rename(tmp_path / "away")
        assert run(submit) == 5
        (tmp_path / "away").rename(tmp_path / "a.tfrecord")
        assert run(submit) == 0
        assert len(fake.submitted) == 1

    def test_without_room_for_its_secret_no_job_starts(
        self, submit: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
        with monkeypatch.context() as patch:
            patch.setattr(user_state, "write_private", without_room)
            assert run(submit) == 1
        assert "secrets/" in (said := capsys.readouterr().err)
        assert "No space left on device; set AFO_STATE_DIR" in said
        assert fake.submitted == []
        assert run(submit) == 0
        assert len(fake.submitted) == 1

    def test_without_room_behind_its_secret_the_job_is_followed(
        self, submit: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
        write = user_state.write_private

        def room_for_secrets(path: Path, data: bytes) -> None:
            (write if path.parent.name == "secrets" else without_room)(path, data)

        monkeypatch.setattr(user_state, "write_private", room_for_secrets)
        for _ in range(2):  # the second finds the first's job
            assert run(submit) == 0
            captured = capsys.readouterr()
            assert captured.out == f"{fake.job_id}\n"
            assert f"warning: {fake.job_id} is not remembered as the last job" in captured.err
        assert len(fake.submitted) == 1

    def test_retry_needs_a_key(self, submit: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*submit[:-2], "--retry"]) == 2
        assert "--idempotency-key" in capsys.readouterr().err
