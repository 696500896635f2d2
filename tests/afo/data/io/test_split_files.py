"""Files of a data set from its globs."""

import time
from pathlib import Path

import pytest

from afo.data.io.split_files import SplitFile, find_splits
from afo.errors import NotFound
from afo.storage import FileInfo, operations


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("b/part-1", "a/part-10", "a/part-2", "a/_SUCCESS", "a/.part-3.tmp", "a/deep/part-0"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b"x" * len(name))
    return tmp_path


def names(root: Path, *globs: str) -> list[str]:
    return [str(Path(split.url).relative_to(root)) for split in find_splits(str(root / each) for each in globs)]


def test_files_come_sorted_once_and_without_hidden_ones(data: Path) -> None:
    assert names(data, "b/*", "a/*", "*/part-2") == ["a/part-10", "a/part-2", "b/part-1"]
    [found] = find_splits([str(data / "b/*")])
    path = data / "b/part-1"
    assert found == SplitFile(str(path), 8, pytest.approx(path.stat().st_mtime, abs=1e-3))


def test_a_hidden_file_is_no_data_even_by_name(data: Path) -> None:
    with pytest.raises(NotFound, match="_SUCCESS"):
        names(data, "a/_SUCCESS")


def test_the_glob_that_matches_nothing_is_named(data: Path) -> None:
    with pytest.raises(NotFound, match=r"no data file matches .*/c/part-\*"):
        names(data, "a/*", "c/part-*")


def test_a_directory_is_answered_with_the_glob_that_was_meant(data: Path) -> None:
    with pytest.raises(NotFound, match=r"it is a directory: write .*/a/\*"):
        names(data, "a/")


class CountingFiles:
    """A file system of `hours` directories with many files each, that counts what it is asked."""

    def __init__(self, hours: int, files: int) -> None:
        self.hours, self.files = hours, files
        self.calls: list[str] = []

    def list_dir(self, path: str) -> list[FileInfo]:
        self.calls.append(f"list {path}")
        if path == "/clicks":
            return [FileInfo(f"hdfs://nn/clicks/h={hour}", 0, 1.0, True) for hour in range(self.hours)]
        names = (f"part-{number:05d}" for number in range(self.files))
        return [FileInfo(f"hdfs://nn{path}/{name}", 1000, 1.0, False) for name in (*names, "_SUCCESS")]

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"`{name}` is asked of single files")


def test_fifty_thousand_files_cost_one_question_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = CountingFiles(hours=20, files=2500)
    monkeypatch.setattr(operations, "_backend", lambda _: backend)
    began = time.monotonic()
    found = find_splits(["hdfs://nn/clicks/h=*/part-*"])
    print(f"50,000 files planned in {time.monotonic() - began:.2f} s")
    assert len(found) == 50_000
    assert sorted(backend.calls) == sorted(["list /clicks", *(f"list /clicks/h={hour}" for hour in range(20))])
    assert sum(file.size for file in found) == 50_000_000
