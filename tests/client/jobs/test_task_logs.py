import os
from pathlib import Path

import pytest

from afo.errors import NotFound, UsageError
from afo.job.paths import JobPaths
from afo_client.jobs import task_logs
from afo_client.jobs.task_logs import GrowingLog, LogFile, find_logs, is_task


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    paths = JobPaths(str(tmp_path), "local_1_1")
    for name in ("worker_0/0", "worker_0/1", "worker_1/0", "ps_0/0", "am/1"):
        folder = Path(paths.logs, name)
        folder.mkdir(parents=True)
        (folder / "stderr").write_text(name)
    return paths


def names(logs: list[LogFile]) -> list[str]:
    return [f"{log.task}/{log.attempt}" for log in logs]


def test_logs_are_found_by_task(paths: JobPaths) -> None:
    assert names(find_logs(paths, None, None)) == ["am/1", "ps:0/0", "worker:0/1", "worker:1/0"]
    assert names(find_logs(paths, "worker", None)) == ["worker:0/1", "worker:1/0"]
    assert names(find_logs(paths, "worker:0", None, all_attempts=True)) == ["worker:0/0", "worker:0/1"]
    assert names(find_logs(paths, "worker:0", 0)) == ["worker:0/0"]
    assert names(find_logs(paths, "am", None)) == ["am/1"]


def test_the_chief_of_a_job_without_one_is_its_first_worker(paths: JobPaths) -> None:
    assert names(find_logs(paths, "chief", None)) == ["worker:0/1"]
    (folder := Path(paths.logs, "chief_0/0")).mkdir(parents=True)
    (folder / "stderr").write_text("")
    assert names(find_logs(paths, "chief", None)) == ["chief:0/0"]


def test_what_is_not_there(paths: JobPaths) -> None:
    with pytest.raises(NotFound, match=r"no log of worker:7 in .*; there are logs of am, ps:0, worker:0, worker:1; "):
        find_logs(paths, "worker:7", None)
    with pytest.raises(NotFound, match="no log of attempt 5 of worker:0 in "):
        find_logs(paths, "worker:0", 5)
    with pytest.raises(NotFound, match=r"no log of worker:0 in .* yet; `afo status`"):
        find_logs(JobPaths(paths.root, "local_1_2"), "worker:0", None)
    with pytest.raises(UsageError, match="no task"):
        find_logs(paths, "wrker:0", None)
    assert not is_task("local_1_1")


@pytest.mark.parametrize(
    "name",
    [
        "\x1b]52;c;aGk=\x07\x1b[2J\u202eworker_0/0", "worker_\u0662/0", "am_0/1", "worker_0/\u00b2", "worker_0/\u0667",
        "worker_0/" + "9" * 200, "worker_" + "9" * 200 + "/0", "am\n/1",
    ],
)  # fmt: skip
def test_a_directory_of_no_task_is_left_alone(paths: JobPaths, name: str) -> None:
    """Anybody's job may hold it, and what a task is called goes to the terminal as it is."""
    folder = Path(paths.logs, name)
    folder.mkdir(parents=True)
    (folder / "stderr").write_text("hostile")
    found = find_logs(paths, None, None, all_attempts=True)
    assert names(found) == ["am/1", "ps:0/0", "worker:0/0", "worker:0/1", "worker:1/0"]


def growing(path: Path, tail: int | None = None) -> GrowingLog:
    return GrowingLog(LogFile("worker:0", 0, "stderr", str(path)), tail)


def test_only_complete_lines_are_given_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    log = growing(path)
    assert log.new_lines(last=False) == []
    path.write_text("a\nb")
    assert log.new_lines(last=False) == ["a"]
    path.write_text("a\nb\nc")
    assert log.new_lines(last=False) == ["b"]
    assert log.new_lines(last=True) == ["c"]
    assert log.new_lines(last=True) == []


def test_a_copy_with_its_middle_left_out_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    log = growing(path)
    path.write_text("".join(f"line {n}\n" for n in range(1000)))
    assert len(log.new_lines(last=False)) == 1000
    kept = "".join(f"line {n}\n" for n in range(600, 1003))
    path.write_text("line 0\n\n[afo: bytes 7 to 99 are left out]\n" + kept)
    assert log.new_lines(last=False) == ["line 1000", "line 1001", "line 1002"]


def test_output_that_was_missed_is_said(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    log = growing(path)
    path.write_text("x\n" * 2000)
    log.new_lines(last=False)
    path.write_text("x\n\n[afo: bytes 2 to 999999 are left out]\nlast\n")
    assert log.new_lines(last=False) == ["", "[afo: bytes 2 to 999999 are left out]", "last"]


def test_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    path.write_text("a\nb\nc\n")
    log = growing(path, tail=2)
    assert log.new_lines(last=False) == ["b", "c"]
    path.write_text("a\nb\nc\nd\ne\nf\n")
    assert log.new_lines(last=False) == ["d", "e", "f"]
    assert growing(path, tail=0).new_lines(last=True) == []


def test_of_a_log_of_any_size_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_logs, "_MOST_BYTES", 3000)
    path = tmp_path / "stderr"
    path.touch()
    os.truncate(path, 1 << 40)
    with path.open("ab") as file:
        file.write(b"\nlast\n")
    log = growing(path)
    assert log.new_lines(last=False)[::2] == ["[afo: the first 1,099,511,624,782 bytes are not shown]", "last"]
    with path.open("ab") as file:
        file.write(b"more\nand ")
    assert log.new_lines(last=False) == ["more"]
    assert log.new_lines(last=True) == ["and "]
    assert growing(path, tail=2).new_lines(last=True) == ["more", "and "]
