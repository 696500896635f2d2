"""Rows of this process's tables to the files of a checkpoint and back: what a save or load request has done."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import google_crc32c

from afo import storage
from afo.errors import ClusterUnreachable, DataError, ProtocolError
from afo.ops import own_tables
from afo.ops.own_tables import OwnTables, Refusal
from afo.tables import row_block, saved_tables
from afo.tables.desk_messages import LoadedRows, LoadRequest, SavedRows, SaveRequest, Source, Target
from afo.tables.save_times import SaveTimes
from afo.tables.saved_tables import RowsFile, SavedBlock

#: Bytes of one block, about: what is in memory at a time.
_BLOCK_BYTES = 4 << 20
#: Time between two looks for the directory of a file that is being written.
_LOOK_S = 10.0
#: Files that a server reads or writes at a time; each has a few blocks in memory.
_STREAMS = 4

_T = TypeVar("_T")
_Item = TypeVar("_Item")


def save(tables: OwnTables, request: SaveRequest) -> SavedRows:
    """Write the files that a save request asks for. Raises AfoError."""
    streams, times, directory = _Streams(tables), SaveTimes(), _Directory(request.url)

    def write(part: int) -> RowsFile:
        directory.check()
        name = f"rows-{request.server:04d}-{part}.afo"
        checksum = google_crc32c.Checksum()
        with times.stream(request.server) as stream, storage.open_output(storage.join(request.url, name)) as file:
            for number, block in stream.read(_own_blocks(tables, request, part)):
                streams.check()
                directory.check_now_and_then()
                for piece in (row_block.head_of(number, block), block):
                    file.write(piece)
                    checksum.update(piece)
                    stream.bytes += len(piece)
        return RowsFile(name, request.server, stream.bytes, int.from_bytes(checksum.digest()))

    files = streams.run(write, range(request.parts))
    return SavedRows(files=tuple(files), times=times.parts()[0])


class _Directory:
    """Where files of a checkpoint go, which is there as long as somebody wants them.

    A chief whose machine is gone without a word cannot end what it has asked for; the next one removes the directory.
    A file that is opened would make it anew.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._checked = time.monotonic()

    def check(self) -> None:
        """Raises NotFound where it was removed."""
        self._checked = time.monotonic()
        storage.info(self._url)

    def check_now_and_then(self) -> None:
        """The same, where the last look was long ago."""
        if time.monotonic() - self._checked > _LOOK_S:
            self.check()


def load(tables: OwnTables, request: LoadRequest) -> LoadedRows:
    """Take over the rows that a load request names. Raises AfoError; what was read until then is there."""
    targets = {target.saved: target for target in request.targets}
    streams, rows = _Streams(tables), 0
    for source in request.sources:

        def read(entry: RowsFile, source: Source = source) -> int:
            found = 0
            for block in saved_tables.file_blocks(source.url, source.manifest, entry):
                streams.check()
                target = targets.get(block.number)
                found += 0 if target is None else _take_over(tables, request, block, target, source, entry)
            return found

        rows += sum(streams.run(read, source.manifest.files))
    return LoadedRows(rows=rows)


def _own_blocks(tables: OwnTables, request: SaveRequest, part: int) -> Iterator[tuple[int, bytes]]:
    """(number of the table, block) of a part of the shards of all tables."""
    for number, since in enumerate(request.since):
        cursor = 0
        while cursor >= 0:
            with _translated(request.url):
                block, cursor = tables.export_block(number, part, request.parts, _BLOCK_BYTES, since, cursor)
            if block:
                yield number, block


def _take_over(
    tables: OwnTables, request: LoadRequest, block: SavedBlock, target: Target, source: Source, entry: RowsFile
) -> int:  # fmt: skip
    content = block.content
    if target.weights_only and not block.is_of_filter:
        content = row_block.weights_only(block.rows, source.manifest.tables[block.number].dim)
    owned, saved = request.slots.range_of(request.server), source.manifest.slots.range_of(entry.server)
    with _translated(storage.join(storage.parent(source.url), entry.file)):
        return tables.import_block(
            target.number, content, weights_only=target.weights_only, owned=owned, saved=saved
        )  # fmt: skip


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """What the tables refuse, as errors for the user."""
    try:
        yield
    except Refusal as refusal:
        raise _error_of(refusal, url) from refusal


def _error_of(refusal: Refusal, url: str) -> Exception:
    if refusal.kind == own_tables.DAMAGED:
        return DataError(f"{url}: {refusal}")
    if refusal.kind == own_tables.NO_MEMORY:
        return MemoryError(str(refusal))
    if refusal.kind == own_tables.GONE:
        return ClusterUnreachable(f"the embedding tables are not on their server any more: {refusal}")
    return ProtocolError(f"{url}: {refusal}")


class _Streams:
    """Several files of a request at a time, of which none goes on when one has failed."""

    def __init__(self, tables: OwnTables) -> None:
        self._tables = tables
        self._broken = threading.Event()

    def run(self, do: Callable[[_Item], _T], items: Iterable[_Item]) -> list[_T]:
        """What `do` returns of each. Raises the first error, when nothing is done any more."""

        def guarded(item: _Item) -> _T:
            try:
                self.check()
                return do(item)
            except BaseException:
                self._broken.set()
                raise

        with ThreadPoolExecutor(_STREAMS, thread_name_prefix="tables") as pool:
            done = [pool.submit(guarded, item) for item in items]
        errors = [error for each in done if (error := each.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, _Ended)):
            raise error
        return [each.result() for each in done]

    def check(self) -> None:
        """Raises ProtocolError where a stream is not to go on: another has failed, or nobody waits for the answer."""
        if self._broken.is_set() or self._tables.is_stopped:
            raise _Ended("this request was ended before it was done: the client is gone, or another server has failed")


class _Ended(ProtocolError):
    """What a stream ends with that is not itself at fault."""
