"""The storage layer on local files: the contract that every file system keeps."""

import contextlib
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from afo import storage
from afo.errors import AlreadyExists, ClusterUnreachable, NotFound, PermissionDenied, StorageError, WaitTimeout
from afo.failures.classify import classify_process
from afo.storage import deadline
from afo.storage.backend import BLOCK
from afo.storage.streams import copy_here
from damaged_files import broken


@pytest.fixture(params=["", "file://"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}{tmp_path}"


def test_what_was_written_is_read(root: str) -> None:
    storage.write_bytes(f"{root}/a/b/x", b"data")
    assert storage.read_bytes(f"{root}/a/b/x") == b"data"
    found = storage.info(f"{root}/a/b/x")
    assert (found.url, found.size, found.is_dir) == (f"{root}/a/b/x", 4, False)
    assert found.modified == pytest.approx(os.stat(f"{root}/a/b/x".removeprefix("file://")).st_mtime)


def test_input_is_seekable(root: str) -> None:
    storage.write_bytes(f"{root}/x", bytes(range(256)))
    with storage.open_input(f"{root}/x") as file:
        assert file.seek(-6, os.SEEK_END) == 250
        assert file.read(2) == bytes([250, 251])
        file.seek(0)
        assert file.read() == bytes(range(256))


def test_output_appears_only_when_closed_and_larger_than_a_block(root: str, tmp_path: Path) -> None:
    data = os.urandom(2 * BLOCK + 17)
    with storage.open_output(f"{root}/x") as file:
        file.write(data[:5])
        file.write(memoryview(data)[5:])
        assert file.tell() == len(data)
        assert not storage.exists(f"{root}/x")
        assert storage.glob(f"{root}/*") == []
    assert storage.read_bytes(f"{root}/x") == data
    assert os.listdir(tmp_path) == ["x"]


def test_an_error_while_writing_leaves_nothing(root: str, tmp_path: Path) -> None:
    storage.write_bytes(f"{root}/x", b"old")

    def write_half_of_it() -> None:
        with storage.open_output(f"{root}/x") as file:
            file.write(b"new")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        write_half_of_it()
    assert storage.read_bytes(f"{root}/x") == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_forgotten_output_is_not_published(root: str, tmp_path: Path) -> None:
    storage.open_output(f"{root}/x").write(b"half")
    assert os.listdir(tmp_path) == []


def test_of_simultaneous_creators_exactly_one_wins(root: str) -> None:
    ready = threading.Barrier(8)
    won: list[int] = []

    def create(number: int) -> None:
        with storage.open_output(f"{root}/manifest", overwrite=False) as file:
            file.write(str(number).encode())
            ready.wait(timeout=30)
        won.append(number)

    def attempt(number: int) -> None:
        with contextlib.suppress(AlreadyExists):
            create(number)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert storage.read_bytes(f"{root}/manifest") == str(won[0]).encode()
    with pytest.raises(AlreadyExists, match="manifest"):
        storage.write_bytes(f"{root}/manifest", b"later", overwrite=False)
    assert [each.url for each in storage.list_dir(root)] == [f"{root}/manifest"]


def test_append_creates_then_adds(root: str) -> None:
    storage.append(f"{root}/j/events", b"one\n")
    storage.append(f"{root}/j/events", b"two\n")
    storage.take_over(f"{root}/j/events")
    assert storage.read_bytes(f"{root}/j/events") == b"one\ntwo\n"


def test_private_files_are_private_from_the_start(root: str, tmp_path: Path) -> None:
    storage.write_bytes(f"{root}/secret", b"s", mode=0o600)
    storage.make_dirs(f"{root}/private", mode=0o700)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


def test_glob_over_directories(root: str) -> None:
    for name in ("dt=1/part-0", "dt=1/part-1", "dt=2/part-0", "dt=2/_SUCCESS", "dt=2/.part-9", "other/part-0", "dt=3"):
        storage.write_bytes(f"{root}/{name}", b"")
    assert [each.url for each in storage.glob(f"{root}/dt=*/part-*")] == [
        f"{root}/dt=1/part-0",
        f"{root}/dt=1/part-1",
        f"{root}/dt=2/part-0",
    ]
    assert [each.url for each in storage.glob(f"{root}/{{other,dt=[2-9]}}/*")] == [
        f"{root}/dt=2/part-0",
        f"{root}/other/part-0",
    ]
    assert [each.url for each in storage.glob(f"{root}/dt=1/part-1")] == [f"{root}/dt=1/part-1"]
    assert storage.glob(f"{root}/nothing/*") == storage.glob(f"{root}/none") == storage.glob(f"{root}/dt=1") == []


def test_glob_takes_the_working_directory_literally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "a[1]{x}*"
    odd.mkdir()
    (odd / "part-0").write_bytes(b"")
    monkeypatch.chdir(odd)
    assert [each.url for each in storage.glob("part-*")] == [str(odd / "part-0")]


@pytest.mark.parametrize("name", ["with space", "quo'te\"s", "ünï", "100%20", "a?b#c", "[1]*"])
def test_odd_names(root: str, name: str) -> None:
    storage.write_bytes(f"{root}/{name}", b"x")
    assert [each.url for each in storage.list_dir(root)] == [f"{root}/{name}"]
    assert storage.read_bytes(f"{root}/{name}") == b"x"


def test_delete(root: str) -> None:
    storage.write_bytes(f"{root}/d/x", b"")
    with pytest.raises(StorageError, match="not empty"):
        storage.delete(f"{root}/d")
    storage.delete(f"{root}/d", recursive=True)
    storage.delete(f"{root}/d")
    with pytest.raises(NotFound):
        storage.delete(f"{root}/d", missing_ok=False)
    with pytest.raises(StorageError, match="root"):
        storage.delete("file:///", recursive=True)


def test_deleting_a_link_leaves_what_it_points_to(root: str, tmp_path: Path) -> None:
    storage.write_bytes(f"{root}/d/x", b"")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    storage.delete(f"{root}/link", recursive=True)
    assert storage.exists(f"{root}/d/x")


def test_rename(root: str) -> None:
    storage.write_bytes(f"{root}/a", b"new")
    storage.write_bytes(f"{root}/b", b"old")
    storage.rename(f"{root}/a", f"{root}/b")
    assert storage.read_bytes(f"{root}/b") == b"new"
    with pytest.raises(NotFound, match="rename"):
        storage.rename(f"{root}/a", f"{root}/c")
    with pytest.raises(StorageError, match="different file systems"):
        storage.rename(f"{root}/b", "hdfs://nn:9000/b")


def test_upload_and_download(root: str, tmp_path: Path) -> None:
    data = os.urandom(3 * BLOCK)
    (tmp_path / "here").write_bytes(data)
    storage.upload(str(tmp_path / "here"), f"{root}/there/x")
    storage.download(f"{root}/there/x", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


@pytest.mark.parametrize("size", [0, 1, BLOCK, 9 * BLOCK, 17 * BLOCK + 17])
def test_a_file_of_any_size_is_copied_here(root: str, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    storage.write_bytes(f"{root}/x", data)
    storage.download(f"{root}/x", str(tmp_path / "new" / "back"))
    assert (tmp_path / "new" / "back").read_bytes() == data


@pytest.mark.parametrize("failing", range(0, 9 * BLOCK, 2 * BLOCK))
def test_a_copy_that_fails_in_one_of_its_streams_leaves_what_was_there(tmp_path: Path, failing: int) -> None:
    source, target = tmp_path / "source", tmp_path / "here" / "target"
    source.write_bytes(bytes(9 * BLOCK))
    target.parent.mkdir()
    target.write_bytes(b"before")

    class Failing(io.FileIO):
        def read(self, size: int = -1) -> bytes:  # type: ignore[override]
            if self.tell() == failing:
                raise ClusterUnreachable("no answer")
            return super().read(size)

    with pytest.raises(ClusterUnreachable, match="no answer"):
        copy_here(lambda: Failing(source), str(target))  # type: ignore[arg-type,return-value]
    assert [each.read_bytes() for each in target.parent.iterdir()] == [b"before"]


def test_a_source_that_becomes_shorter_is_an_error(tmp_path: Path) -> None:
    class Shorter(io.BytesIO):
        def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
            return super().seek(offset, whence) + (10 if whence == os.SEEK_END else 0)

    with pytest.raises(StorageError, match=r"cannot copy to .*target: its source was cut off"):
        copy_here(lambda: Shorter(b"data"), str(tmp_path / "target"))
    assert not list(tmp_path.iterdir())


def test_errors_name_what_and_where(root: str, tmp_path: Path) -> None:
    storage.write_bytes(f"{root}/file", b"")
    with pytest.raises(NotFound, match=rf"cannot read {tmp_path}/none"):
        storage.read_bytes(f"{root}/none")
    with pytest.raises(NotFound, match="cannot list"):
        storage.list_dir(f"{root}/none")
    with pytest.raises(StorageError, match="directory"):
        storage.list_dir(f"{root}/file")
    with pytest.raises(StorageError, match="is a directory"):
        storage.write_bytes(root, b"")
    with pytest.raises(StorageError, match=f"make directory {tmp_path}/file"):
        storage.write_bytes(f"{root}/file/x", b"")
    assert not storage.exists(f"{root}/file/x")


@pytest.mark.parametrize("how_much", [1, -1])
def test_an_error_after_the_opening_names_what_and_where(root: str, tmp_path: Path, how_much: int) -> None:
    storage.write_bytes(f"{root}/file", b"data")
    with broken(storage.open_input(f"{root}/file")) as file:
        with pytest.raises(StorageError, match=f"cannot read {tmp_path}/file: Bad file descriptor"):
            file.read(how_much)
        with pytest.raises(StorageError, match=f"cannot read {tmp_path}/file: Illegal seek"):
            file.seek(1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory(root: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionDenied, match=str(tmp_path)):
        storage.write_bytes(f"{root}/x", b"")


def test_a_full_disk_is_said_and_leaves_nothing() -> None:
    with pytest.raises(StorageError, match="No space left on device") as caught:
        storage.append("/dev/full", b"x")
    assert classify_process(1, f"afo.errors.StorageError: {caught.value}") == "disk_full"


def test_deadline_passes_results_and_errors_and_ends_waiting() -> None:
    assert deadline.call(30, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        deadline.call(30, lambda: 1 // 0)
    forever = threading.Event()
    with pytest.raises(WaitTimeout, match=r"0\.01 s"):
        deadline.call(0.01, forever.wait)
    forever.set()


def test_local_work_loads_no_hdfs_client() -> None:
    program = "import sys, afo.storage as s; s.exists('/'); sys.exit('hdfs_native' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
