"""The storage layer on a real HDFS."""

import contextlib
import multiprocessing
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import hdfs_native
import pytest

from afo import storage
from afo.errors import AlreadyExists, ClusterUnreachable, NotFound, PermissionDenied, StillOpen, StorageError
from afo.events import event_log, event_tail
from afo.events.event_tail import EventTail
from afo.events.types import KillRequested
from afo.hadoop.conf import read_properties
from afo.storage import hdfs as hdfs_module
from afo.storage import patience
from afo.storage.backend import BLOCK
from afo_client.hadoop import Cluster
from afo_client.hadoop.site import write_site

pytestmark = pytest.mark.hadoop


@pytest.fixture
def root(hadoop: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    url = f"{hadoop.hdfs_uri}/tests/{request.node.name}"
    yield url
    storage.delete(url, recursive=True)


def test_write_read_list_and_delete(root: str) -> None:
    storage.write_bytes(f"{root}/a/b/x", b"data")
    assert storage.read_bytes(f"{root}/a/b/x") == b"data"
    found = storage.info(f"{root}/a/b/x")
    assert (found.url, found.size, found.is_dir) == (f"{root}/a/b/x", 4, False)
    assert found.modified > 1.7e9
    assert [(each.url, each.is_dir) for each in storage.list_dir(f"{root}/a")] == [(f"{root}/a/b", True)]
    with pytest.raises(StorageError, match="not empty"):
        storage.delete(f"{root}/a")
    storage.delete(f"{root}/a", recursive=True)
    storage.delete(f"{root}/a")
    with pytest.raises(NotFound):
        storage.delete(f"{root}/a", missing_ok=False)


def test_the_configured_file_system_needs_no_address(hadoop: Cluster, root: str) -> None:
    storage.write_bytes(f"{root}/x", b"data")
    path = root.removeprefix(hadoop.hdfs_uri)
    assert storage.read_bytes(f"hdfs://{path}/x") == b"data"
    assert storage.info(f"hdfs://{path}/x").url == f"hdfs://{path}/x"


def test_large_files_round_trip_and_seek(root: str, tmp_path: Path) -> None:
    data = os.urandom(3 * BLOCK + 17)
    (tmp_path / "here").write_bytes(data)
    storage.upload(str(tmp_path / "here"), f"{root}/big")
    storage.download(f"{root}/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    with storage.open_input(f"{root}/big") as file:
        file.seek(2 * BLOCK - 3)
        assert file.read(7) == data[2 * BLOCK - 3 : 2 * BLOCK + 4]
        file.seek(-5, os.SEEK_END)
        assert file.read() == data[-5:]
        assert file.read(1) == b""


def test_an_error_while_writing_leaves_nothing(root: str) -> None:
    storage.make_dirs(root)

    def write_half_of_it() -> None:
        with storage.open_output(f"{root}/x") as file:
            file.write(b"half")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        write_half_of_it()
    assert storage.list_dir(root) == []


def test_of_simultaneous_creators_exactly_one_wins(root: str) -> None:
    ready = threading.Barrier(6)
    won: list[int] = []

    def create(number: int) -> None:
        with storage.open_output(f"{root}/manifest", overwrite=False) as file:
            file.write(str(number).encode())
            ready.wait(timeout=60)
        won.append(number)

    def attempt(number: int) -> None:
        with contextlib.suppress(AlreadyExists):
            create(number)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(6)]
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
    for number in range(4):
        storage.append(f"{root}/journal", f"{number}\n".encode())
    assert storage.read_bytes(f"{root}/journal") == b"0\n1\n2\n3\n"


def test_a_reader_never_misses_what_was_appended(root: str) -> None:
    """While an append has the file open, hdfs-native by itself shows it without its last block."""
    acknowledged = 0
    done = threading.Event()

    def write() -> None:
        nonlocal acknowledged
        for _ in range(30):
            storage.append(f"{root}/journal", b"0123456789")
            acknowledged += 10
        done.set()

    storage.append(f"{root}/journal", b"")
    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        before = acknowledged
        assert len(storage.read_bytes(f"{root}/journal")) >= before
    writer.join()


def test_a_file_left_open_is_refused_until_taken_over(root: str) -> None:
    storage.append(f"{root}/journal", b"first,")
    uri, path = root.rsplit("/tests/", 1)
    abandoned = hdfs_native.Client(uri).append(f"/tests/{path}/journal")
    abandoned.write(b"second")
    abandoned.hsync()
    with pytest.raises(StillOpen, match=r"for 0.2 s another process has had it open"):
        storage.open_input(f"{root}/journal", patience_s=0.2)
    with pytest.raises(StorageError, match="another process has it open"):
        storage.append(f"{root}/journal", b"mine")
    storage.take_over(f"{root}/journal")
    assert storage.read_bytes(f"{root}/journal") == b"first,second"
    storage.append(f"{root}/journal", b",third")
    assert storage.read_bytes(f"{root}/journal") == b"first,second,third"

    def write_late() -> None:
        abandoned.write(b"late")
        abandoned.hsync()

    with pytest.raises(RuntimeError):
        write_late()
    assert storage.read_bytes(f"{root}/journal") == b"first,second,third"


def test_who_follows_a_log_whose_writer_died_is_not_held_up(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits once; when the file is closed, which may add nothing, it goes on where it was."""
    monkeypatch.setattr(event_tail, "PATIENCE_S", 0.2)
    lines = [event_log.encode_line(_record(seq)) for seq in range(3)]
    first, second = f"{root}/events/events_1_1.jsonl", f"{root}/events/events_2_2.jsonl"
    storage.append(first, lines[0])
    tail = EventTail(f"{root}/events")
    assert [each.seq for each in tail.poll()] == [0]
    uri, path = root.rsplit("/tests/", 1)
    abandoned = hdfs_native.Client(uri).append(f"/tests/{path}/events/events_1_1.jsonl")
    abandoned.write(lines[1])
    abandoned.hsync()
    opened: list[str] = []
    monkeypatch.setattr(storage, "open_input", _counted(storage.open_input, opened))
    fresh = EventTail(f"{root}/events")
    for _ in range(3):
        assert list(tail.poll()) == list(fresh.poll()) == []
    assert opened == [first, first], "once by each"
    assert tail.unread == fresh.unread == first
    storage.take_over(first)
    storage.append(second, lines[2])
    assert [each.seq for each in tail.poll()] == [1, 2]
    assert [each.seq for each in fresh.poll()] == [0, 1, 2]
    assert not fresh.unread


def _record(seq: int) -> event_log.Record:
    event = KillRequested(user="alice", reason="")
    return event_log.Record(seq=seq, am_attempt=1, incarnation=1, time=float(seq), event=event)


def _counted(open_input: Callable[..., BinaryIO], opened: list[str]) -> Callable[..., BinaryIO]:
    def counted(url: str, patience_s: float | None = None) -> BinaryIO:
        opened.append(url)
        return open_input(url, patience_s)

    return counted


@pytest.fixture
def mounted(root: str, hadoop: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The default file system: a mount table that leads `/clicks` to a directory of HDFS, all else to another one."""
    settings = {**read_properties(hadoop.conf_dir / "core-site.xml"), "fs.defaultFS": "viewfs://all"}
    settings["fs.viewfs.mounttable.all.link./clicks"] = f"{root}/clicks"
    settings["fs.viewfs.mounttable.all.linkFallback"] = f"{root}/rest"
    settings["fs.viewfs.mounttable.bare.link./clicks"] = f"{root}/clicks"
    write_site(tmp_path / "core-site.xml", settings)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return "viewfs://all"


def test_a_mount_table_leads_to_hdfs(root: str, mounted: str, tmp_path: Path) -> None:
    storage.write_bytes(f"{mounted}/clicks/1/part-0", b"0123456789")
    storage.append(f"{mounted}/clicks/1/log", b"one")
    storage.write_bytes(f"{root}/clicks/1/part-1", b"1")
    assert [each.url for each in storage.list_dir(f"{mounted}/clicks/1")] == [
        f"{mounted}/clicks/1/{name}" for name in ("log", "part-0", "part-1")
    ]
    assert [each.url for each in storage.glob(f"{mounted}/clicks/*/part-*")] == [
        f"{mounted}/clicks/1/part-0", f"{mounted}/clicks/1/part-1"
    ]  # fmt: skip
    storage.rename(f"{mounted}/clicks/1/part-0", f"{mounted}/clicks/1/part-2")
    storage.download(f"{mounted}/clicks/1/part-2", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == storage.read_bytes(f"{root}/clicks/1/part-2") == b"0123456789"
    assert storage.read_bytes("hdfs:///clicks/1/log") == b"one", "the default file system"
    storage.write_bytes(f"{mounted}/models/a", b"rest")
    assert storage.read_bytes(f"{root}/rest/models/a") == b"rest"
    with pytest.raises(StorageError, match=r"cannot rename .*different name services"):
        storage.rename(f"{mounted}/models/a", f"{mounted}/clicks/a")


def test_a_mount_table_that_hdfs_native_cannot_use(mounted: str) -> None:
    with pytest.raises(StorageError, match=r"that core-site.xml set fs\.viewfs\.mounttable\.\w+\.linkFallback"):
        storage.list_dir("viewfs://bare/clicks")
    with pytest.raises(StorageError, match=r"that core-site.xml set fs\.viewfs\.mounttable\.\w+\.linkFallback"):
        storage.list_dir("viewfs://unknown/clicks")


def test_rename_replaces(root: str) -> None:
    storage.write_bytes(f"{root}/a", b"new")
    storage.write_bytes(f"{root}/b", b"old")
    storage.rename(f"{root}/a", f"{root}/b")
    assert storage.read_bytes(f"{root}/b") == b"new"
    with pytest.raises(NotFound, match=rf"rename {root}/a to {root}/c"):
        storage.rename(f"{root}/a", f"{root}/c")


def test_a_directory_gets_its_name_with_all_that_is_in_it(root: str) -> None:
    """How scores and exported models appear: an empty directory may stand there before, a full one is deleted."""
    storage.make_dirs(f"{root}/out")
    for content in (b"first", b"second"):
        storage.write_bytes(f"{root}/.out.tmp/part-0", content)
        storage.write_bytes(f"{root}/.out.tmp/_SUCCESS", b"")
        if content == b"second":
            storage.delete(f"{root}/out", recursive=True)
        storage.rename(f"{root}/.out.tmp", f"{root}/out")
        assert storage.read_bytes(f"{root}/out/part-0") == content
        assert [storage.name(each.url) for each in storage.list_dir(f"{root}/out")] == ["_SUCCESS", "part-0"]
        assert not storage.exists(f"{root}/.out.tmp")


def test_glob_over_directories(root: str) -> None:
    for name in ("dt=1/part-0", "dt=1/part-1", "dt=2/part-0", "dt=2/_SUCCESS", "other/part-0"):
        storage.write_bytes(f"{root}/{name}", b"")
    assert [each.url for each in storage.glob(f"{root}/dt=*/part-[0-9]")] == [
        f"{root}/dt=1/part-0",
        f"{root}/dt=1/part-1",
        f"{root}/dt=2/part-0",
    ]
    assert [each.url for each in storage.glob(f"{root}/{{other,dt=2}}/*")] == [
        f"{root}/dt=2/part-0",
        f"{root}/other/part-0",
    ]
    assert storage.glob(f"{root}/none/*") == []


@pytest.mark.parametrize("name", ["with space", "quo'te\"s", "ünï", "100%20", "a?b#c", "[1]*"])
def test_odd_names(hadoop: Cluster, name: str) -> None:
    directory = f"{hadoop.hdfs_uri}/tests/odd"
    storage.write_bytes(f"{directory}/{name}", b"x")
    assert [each.url for each in storage.list_dir(directory)] == [f"{directory}/{name}"]
    assert storage.read_bytes(f"{directory}/{name}") == b"x"
    storage.delete(directory, recursive=True)


def test_permissions(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write_bytes(f"{root}/secret", b"s", mode=0o600)
    storage.make_dirs(f"{root}/private", mode=0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    with pytest.raises(PermissionDenied, match=r"secret.*mallory"):
        storage.read_bytes(f"{root}/secret")
    with pytest.raises(PermissionDenied, match=r"private.*mallory"):
        storage.list_dir(f"{root}/private")
    with pytest.raises(PermissionDenied, match="mallory"):
        storage.write_bytes(f"{root}/mine", b"")
    monkeypatch.undo()
    assert storage.read_bytes(f"{root}/secret") == b"s"


def test_errors_name_what_and_where(root: str) -> None:
    storage.write_bytes(f"{root}/file", b"")
    with pytest.raises(NotFound, match=f"cannot read {root}/none"):
        storage.read_bytes(f"{root}/none")
    with pytest.raises(NotFound, match="cannot list"):
        storage.list_dir(f"{root}/none")
    with pytest.raises(StorageError, match="not a directory"):
        storage.list_dir(f"{root}/file")
    with pytest.raises(StorageError, match="is a directory"):
        storage.read_bytes(root)
    with pytest.raises(StorageError, match="is a directory"):
        storage.write_bytes(root, b"")
    with pytest.raises(StorageError, match="not a directory"):
        storage.write_bytes(f"{root}/file/x", b"")
    assert not storage.exists(f"{root}/file/x")


def test_no_cluster_there(hadoop: Cluster) -> None:
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1 does not answer: Connection refused"):
        storage.exists("hdfs://127.0.0.1:1/x")
    with pytest.raises(ClusterUnreachable, match="no NameNode is configured"):
        storage.exists("hdfs://nowhere/x")


def test_a_server_that_never_answers_is_given_up(hadoop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_module, "CALL_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ClusterUnreachable, match=rf"127\.0\.0\.1:{port} does not answer: no answer within 0\.3 s"):
            storage.exists(f"hdfs://127.0.0.1:{port}/x")


def test_a_forked_process_gets_a_client_of_its_own(root: str) -> None:
    storage.write_bytes(f"{root}/x", b"data")
    child = multiprocessing.get_context("fork").Process(target=storage.read_bytes, args=(f"{root}/x",))
    child.start()
    child.join(timeout=60)
    assert child.exitcode == 0


def test_a_patient_reader_outlives_a_restart_of_the_namenode(
    hadoop: Cluster, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_seconds", 120.0)
    data = os.urandom(3 << 20)
    storage.write_bytes(f"{root}/before", data)
    hadoop.kill_daemon("namenode")
    back = threading.Thread(target=hadoop.start_daemon, args=["namenode"])
    back.start()
    try:
        assert storage.read_bytes(f"{root}/before") == data
        (tmp_path / "local").write_bytes(data)
        storage.upload(str(tmp_path / "local"), f"{root}/after")
        assert storage.info(f"{root}/after").size == len(data)
    finally:
        back.join()


def test_a_patient_reader_outlives_a_restart_of_the_datanode(
    hadoop: Cluster, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 << 20)
    storage.write_bytes(f"{root}/file", data)
    hadoop.kill_daemon("datanode")
    with pytest.raises(ClusterUnreachable, match="no DataNode of HDFS"):
        storage.read_bytes(f"{root}/file")
    monkeypatch.setattr(patience, "_seconds", 120.0)
    back = threading.Thread(target=hadoop.start_daemon, args=["datanode"])
    back.start()
    try:
        assert storage.read_bytes(f"{root}/file") == data
    finally:
        back.join()
