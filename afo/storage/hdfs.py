"""Files in HDFS, through hdfs-native: a Rust client of the NameNode's and DataNodes' own protocols, without a JVM.

Measured against a NameNode and DataNode on one busy machine: a metadata call 1 to 8 ms, `append` 25 to 60 ms (of it
open 12 to 40, hsync 3 to 10, close 7 to 13), reading 370 to 480 MB/s in blocks of 4 to 8 MiB.
"""

from __future__ import annotations

import functools
import io
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, TypeVar
from urllib.parse import urlsplit

import hdfs_native

from afo.errors import AfoError, ClusterUnreachable, NotFound, StillOpen, StorageError
from afo.hadoop import conf, delegation_tokens
from afo.storage import deadline
from afo.storage.backend import BLOCK, FileInfo, temporary_name
from afo.storage.hdfs_errors import translate
from afo.storage.patience import patiently
from afo.storage.url import VIEWFS

T = TypeVar("T")

#: No call lasts longer, whatever becomes of NameNode or DataNodes. Seconds.
CALL_SECONDS = 30.0
#: How long a reader waits for a writer to close a file, and `take_over` for the NameNode to end a lease. Seconds.
LEASE_SECONDS = 30.0
_POLL_SECONDS = 0.02

#: hdfs-native by itself tries 15 times with growing pauses, which is minutes; this is about 3 s where a port is closed.
_RETRIES = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "500",
    "dfs.client.failover.sleep.max.millis": "1500",
}


#: Whom hdfs-native takes this process for: without Kerberos by name, else by a delegation token or a ticket. It reads
#: the files anew for each connection.
_IDENTITY = ("HADOOP_USER_NAME", delegation_tokens.LOCATION, "KRB5CCNAME", "KRB5_CONFIG")


@functools.lru_cache(maxsize=64)
def _client(process: int, conf_dir: str, identity: tuple[str | None, ...], url: str) -> hdfs_native.Client:
    """One client for a cluster. `process` is a key because a client used before a fork hangs in the child."""
    del process, identity
    return hdfs_native.Client(url or None, _RETRIES, conf_dir or None)


def _as_in_a_token(address: str, tokens: str) -> str:
    """`host:port` as `ip:port` where the file `tokens` has a token for that alone.

    Java writes services so (`hadoop.security.token.service.use_ip`), and hdfs-native compares the texts. Raises
    StorageError for a file that cannot be read.
    """
    written = os.stat(tokens).st_mtime_ns if os.path.exists(tokens) else 0
    return _match_token_service(address, tokens, written)


@functools.lru_cache(maxsize=64)
def _match_token_service(address: str, tokens: str, written: int) -> str:
    del tokens, written  # which are replaced as one, when new ones are obtained
    services = {token.service for token in delegation_tokens.load_tokens() if token.kind == delegation_tokens.HDFS}
    host, colon, port = address.rpartition(":")
    if not services or not colon or address in services:
        return address
    try:
        found = socket.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError:
        return address  # connecting to it will say so
    known = (f"{where[0]}:{port}" for *_, where in found)
    return next((service for service in known if service in services), address)


class HdfsFiles:
    """The `afo.storage.backend.Backend` of `hdfs://` URLs of one cluster.

    `address` is "host:port", a name service, or empty for `fs.defaultFS` of the configuration.
    """

    def __init__(self, prefix: str, address: str) -> None:
        self._prefix = prefix
        self._address = address

    @property
    def _where(self) -> str:
        return self._address or conf.setting("fs.defaultFS") or "(fs.defaultFS is not set)"

    def _call_once(self, what: str, path: str, function: Callable[[], T]) -> T:
        """Runs one call of hdfs-native: with a deadline, and with its errors translated."""
        try:
            return deadline.call(CALL_SECONDS, function)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise translate(error, what, self._prefix + path, self._where) from error

    def _call_patiently(self, what: str, path: str, function: Callable[[], T]) -> T:
        """The same for a call that may be made twice, as long as this process waits for a file system."""
        return patiently(lambda: self._call_once(what, path, function))

    @property
    def _native(self) -> hdfs_native.Client:
        identity = tuple(os.environ.get(name) for name in _IDENTITY)
        return _client(os.getpid(), str(conf.conf_dir() or ""), identity, self._root(identity[1]))

    def _root(self, tokens: str | None) -> str:
        """What hdfs-native is asked for: a NameNode as the tokens call it, a mount table, or '' for the default."""
        url = self._prefix if self._address else ""
        if not tokens:
            return url
        url = url or conf.setting("fs.defaultFS") or ""
        if not url or url.startswith(f"{VIEWFS}://"):
            return url
        return f"hdfs://{_as_in_a_token(urlsplit(url).netloc, tokens)}"

    def open_input(self, path: str, patience_s: float | None) -> BinaryIO:
        """Raises StillOpen when another process keeps the file open for writing so long.

        Of a file that is open for appending, hdfs-native does not see the last block, which for a journal is all of
        it: a reader that took what it gets would lose records that were acknowledged. So it waits for the close.
        """
        patience_s = LEASE_SECONDS if patience_s is None else patience_s
        end = time.monotonic() + patience_s
        while True:
            reader, size = self._call_patiently("read", path, lambda: self._open(path))
            if len(reader) >= size:
                return io.BufferedReader(_HdfsReader(self, path, reader), buffer_size=BLOCK)
            if time.monotonic() > end:
                raise StillOpen(
                    f"cannot read {self._prefix + path}: for {patience_s:g} s another process has had it open for"
                    " writing; if that process is dead, take the file over first"
                )
            time.sleep(_POLL_SECONDS)

    def _open(self, path: str) -> tuple[hdfs_native.FileReader, int]:
        status = self._native.get_file_info(path)
        if status.isdir:
            raise StorageError(f"cannot read {self._prefix + path}: it is a directory")
        return self._native.read(path), status.length

    def create(self, path: str, *, overwrite: bool, mode: int | None) -> _HdfsSink:
        if self._is_dir(path):
            raise StorageError(f"cannot write {self._prefix + path}: it is a directory")
        return _HdfsSink(self, path, overwrite=overwrite, mode=mode)

    def _is_dir(self, path: str) -> bool:
        try:
            return self.info(path).is_dir
        except NotFound:
            return False

    def append(self, path: str, data: bytes) -> None:
        """Raises StorageError while another process has the file open."""

        def append() -> None:
            try:
                writer = self._native.append(path)
            except FileNotFoundError:
                writer = self._native.create(path, hdfs_native.WriteOptions(overwrite=False, create_parent=True))
            writer.write(data)
            _close_durably(writer)

        self._call_once("append to", path, append)

    def take_over(self, path: str) -> None:
        """Closes a file for its writer, which is dead or must be stopped: it cannot write to it any more.

        Raises StorageError where the NameNode did not manage within LEASE_SECONDS.
        """
        end = time.monotonic() + LEASE_SECONDS
        self.info(path)
        while not self._call_once("take over", path, lambda: self._native.recover_lease(path)):
            if time.monotonic() > end:
                raise StorageError(
                    f"cannot take over {self._prefix + path}: its lease is not ended after {LEASE_SECONDS:g} s"
                )
            time.sleep(_POLL_SECONDS * 5)

    def info(self, path: str) -> FileInfo:
        return self._info(self._call_patiently("look at", path, lambda: self._native.get_file_info(path)))

    def list_dir(self, path: str) -> list[FileInfo]:
        def list_dir() -> list[hdfs_native.FileStatus]:
            return list(self._native.list_status(path))

        found = [self._info(status) for status in self._call_patiently("list", path, list_dir)]
        # The NameNode answers for a file with the file itself.
        if [entry.url for entry in found] == [self._prefix + path] and not found[0].is_dir:
            raise StorageError(f"cannot list {self._prefix + path}: it is not a directory")
        return found

    def _info(self, status: hdfs_native.FileStatus) -> FileInfo:
        modified = status.modification_time / 1000
        return FileInfo(self._prefix + status.path, status.length, modified, status.isdir, status.owner)

    def make_dirs(self, path: str, mode: int | None) -> None:
        permission = 0o755 if mode is None else mode
        self._call_patiently("make directory", path, lambda: self._native.mkdirs(path, permission, create_parent=True))

    def delete(self, path: str, *, recursive: bool) -> bool:
        existed: bool = self._call_patiently("delete", path, lambda: self._native.delete(path, recursive))
        return existed

    def rename(self, source: str, destination: str) -> None:
        what = f"{source} to {self._prefix + destination}"
        self._call_once("rename", what, lambda: self._native.rename(source, destination, overwrite=True))


class _HdfsReader(io.RawIOBase):
    """Random access to one file, a block a call."""

    def __init__(self, files: HdfsFiles, path: str, reader: hdfs_native.FileReader) -> None:
        self._files = files
        self._path = path
        self._reader = reader
        self._size = len(reader)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"seek to {start + offset} in {self._path}: before the start of the file")
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """At most one block, as raw files may; everything for a negative size."""
        if size < 0:
            return self.readall()
        # hdfs-native panics when asked for bytes behind the end.
        size = max(0, min(size, 2 * BLOCK, self._size - self._at))
        if not size:
            return b""
        data: bytes = self._files._call_patiently("read", self._path, lambda: self._range(size))
        self._at += len(data)
        return data

    def _range(self, size: int) -> bytes:
        try:
            return bytes(self._reader.read_range(self._at, size))
        except RuntimeError:
            # It knows where the blocks lay when it was opened: nowhere, right after a start of the NameNode.
            self._reader = self._files._native.read(self._path)
            raise

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(2 * BLOCK), b""))

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer is wider
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _HdfsSink:
    """A temporary file beside its destination."""

    def __init__(self, files: HdfsFiles, path: str, *, overwrite: bool, mode: int | None) -> None:
        self._files = files
        self._path = path
        self._overwrite = overwrite
        self._temporary = temporary_name(path)
        options = hdfs_native.WriteOptions(overwrite=False, create_parent=True, permission=mode)
        self._writer = files._call_once("write", path, lambda: files._native.create(self._temporary, options))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._files._call_once("write", self._path, lambda: self._writer.write(data))

    def commit(self) -> None:
        self._files._call_once("write", self._path, lambda: _close_durably(self._writer))
        rename = functools.partial(self._files._native.rename, self._temporary, self._path, overwrite=self._overwrite)
        self._files._call_once("write", self._path, rename)

    def discard(self) -> None:
        # The error that led here is the one to report. A cluster that does not answer keeps the temporary file.
        try:
            self._files._call_once("discard", self._path, self._writer.close)
        except ClusterUnreachable:
            return
        except AfoError:
            pass
        with suppress(AfoError):
            self._files.delete(self._temporary, recursive=False)


def _close_durably(writer: hdfs_native.FileWriter) -> None:
    # Closing alone leaves the last block in the DataNodes' page caches. Erasure-coded files cannot be synced.
    with suppress(NotImplementedError):
        writer.hsync()
    writer.close()
