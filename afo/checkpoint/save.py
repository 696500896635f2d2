"""Writer of checkpoints: all variables of the parameter servers as files.

The positions are read before the parameters. Other workers train on meanwhile, so the parameters may hold a few
batches more than the positions say: after a restore those are applied once more, and none is lost.
"""

import functools
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afo import storage
from afo.checkpoint import manifest
from afo.checkpoint.manifest import Manifest, Part
from afo.checkpoint.metadata import Origin
from afo.embedding.checkpoint import TableSaver
from afo.errors import AfoError
from afo.logs.task_log import LOG, one_line
from afo.rpc.messages import HashTables, ServerPart
from afo.state.parameters import Parameter, Parameters
from afo.state.server_state import server_states
from afo.state.variables import PsVariable, VariableIo
from afo.tables.save_times import SaveTimes

#: Files of one checkpoint that are sent at a time. A small one costs several round trips and hardly any bytes.
_SENDERS = 8


def tensors(table: Parameter) -> Iterator[tuple[str, tuple[PsVariable, ...]]]:
    """Names of a table's tensors (weights and slots) and the variables of their shards."""
    everything = [(shard.weights, *shard.slots) for shard in table.shards]
    return zip(table.tensors, zip(*everything, strict=True), strict=True)


class Saved(NamedTuple):
    """What became of a checkpoint: its manifest's URL, the positions int64 [splits, 3], and the tables in it."""

    url: str
    step: int
    positions: Any
    hash_tables: HashTables | None
    servers: tuple[ServerPart, ...]


class _File(NamedTuple):
    """A tensor's part on the local disk; `server`: whose it is alone, if it is one's."""

    tensor: str
    path: Path
    part: int = 0
    parts: int = 1
    server: int | None = None


class CheckpointWriter:
    """Saves the variables of one generation under `checkpoint_url`."""

    def __init__(
        self, parameters: Parameters, checkpoint_url: str, scratch: Path, generation: int, origin: Origin,
        full_every: int = 1,
    ) -> None:  # fmt: skip
        """`origin` adds to the manifest what the model is made of. Of `full_every` checkpoints one holds all rows of
        hash tables, each other what changed since the one before."""
        self._parameters = parameters
        self._origin = origin
        self._url = checkpoint_url
        self._scratch = scratch / "checkpoint"
        self._generation = generation
        group = parameters.embeddings
        self._tables = None if group is None else TableSaver(group, most_deltas=full_every - 1)
        #: Directory of the last one, which the next one's tables can stand on.
        self._before: str | None = None
        #: The same for every checkpoint.
        self._io = functools.cache(VariableIo)
        self._states = server_states(parameters)

    def begin(self) -> str:
        """A directory of its own for each try: what a manifest names is never written again."""
        return f"g{self._generation:06d}-{secrets.token_hex(6)}"

    def save(self, directory: str, *, final: bool) -> Saved:
        """Write a checkpoint into `directory`, of which nothing is left where that fails."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        began, times = time.monotonic(), SaveTimes()
        with self._removed_if_broken(directory):
            records = _read(0, self._states[0].read_records, times)
            step, positions = int(records["step"]), records["positions"]
            parts = self._send(directory, records, times)
            evicted = self._evict(step)
            saved_tables, base = self._save_tables(directory, incremental=not final, times=times)
            (keys, sizes), servers = self._sizes(), times.parts()
            manifest.require_files(self._url, directory, [part.file for part in parts])
        url, ours = manifest.commit(
            self._url,
            Manifest(
                version=manifest.FORMAT_VERSION,
                generation=self._generation,
                step=step,
                final=final,
                directory=directory,
                rows={table.name: table.rows for table in self._parameters.tables} | keys,
                parts=parts,
                rules=self._origin.rules,
                sections=self._origin.sections,
                lineage=self._origin.lineage(step, positions),
                tables=saved_tables,
                base=base,
                clock=self._origin.clock.ticks,
                seconds=round(time.monotonic() - began, 3),
                servers=servers,
            ),
        )
        self._before = directory
        if not ours and self._tables is not None:
            self._tables.forget()
        tables = None if self._tables is None else HashTables(rows=sum(keys.values()), bytes=sizes, evicted=evicted)
        return Saved(url, step, positions, tables, servers)

    @contextmanager
    def _removed_if_broken(self, directory: str) -> Iterator[None]:
        """Leaves nothing of a try that fails: its files would take the room that the next one needs.

        Not around the manifest, which may be there though writing it failed.
        """
        try:
            yield
        except Exception:
            try:
                storage.delete(storage.join(self._url, directory), recursive=True)
            except AfoError as error:
                LOG.warning("what there is of a checkpoint stays: %s", one_line(str(error)))
            raise

    def _sizes(self) -> tuple[dict[str, int], int]:
        """How many keys each hash table has now, and the bytes of all."""
        group = self._parameters.embeddings
        if group is None:
            return {}, 0
        counts, sizes = group.sizes()
        keys = counts.sum(axis=0).tolist()
        return {table.name: count for table, count in zip(group.tables, keys, strict=True)}, int(sizes.sum())

    def _evict(self, step: int) -> int:
        """Rows that the job does not want to keep go now, so that the checkpoint knows of it; returns how many."""
        group, clock = self._parameters.embeddings, self._origin.clock
        now = time.time()
        clock.tick(now, step)
        evicted = 0 if group is None else int(group.evict(step, step_ago=lambda age: clock.step_at(now - age)).sum())
        if evicted:
            LOG.info("evicted %s rows of hash tables at step %s", f"{evicted:,}", f"{step:,}")
        return evicted

    def _save_tables(self, directory: str, *, incremental: bool, times: SaveTimes) -> tuple[str | None, str | None]:
        """Returns the file that names all of them, relative to `directory`, and the directory that they stand on."""
        if self._tables is None:
            return None, None
        url = storage.join(self._url, directory, manifest.TABLES)
        saved = self._tables.save(url, incremental=incremental, times=times)
        return f"{manifest.TABLES}/{storage.name(saved)}", self._before if self._tables.is_delta else None

    def _send(self, directory: str, records: Mapping[str, Any], times: SaveTimes) -> tuple[Part, ...]:
        """Write file after file and send several at once; never more than those lie on the local disk.

        After the first that cannot be sent no other is begun: each might wait as long for the file system.
        """
        room, broken = threading.Semaphore(_SENDERS), threading.Event()

        def send(file: _File) -> Part:
            try:
                return self._upload(directory, file, times)
            except BaseException:
                broken.set()
                raise
            finally:
                room.release()

        sent: list[Future[Part]] = []
        with ThreadPoolExecutor(_SENDERS, thread_name_prefix="checkpoint") as pool:
            for file in self._files(records, times):
                room.acquire()
                if broken.is_set():
                    break
                sent.append(pool.submit(send, file))
        return tuple(part.result() for part in sent)

    def _files(self, records: Mapping[str, Any], times: SaveTimes) -> Iterator[_File]:
        """Writes file after file to the local disk."""
        for name, value in records.items():
            yield _File(name, self._write(name, 0, value))
        for table in self._parameters.tables:
            for name, shards in tensors(table):
                for part, variable in enumerate(shards):
                    path = self._write_chunks(name, part, variable, times)
                    yield _File(name, path, part, len(shards), variable.server)
        dense = [_read(server, state.read_weights, times) for server, state in enumerate(self._states)]
        for name in self._parameters.dense.tensors:
            yield _File(name, self._write(name, 0, np.concatenate([there[name] for there in dense])))

    def _write(self, name: str, part: int, value: Any) -> Path:
        path = self._scratch / f"{name}.{part}.npy"
        np.save(path, value, allow_pickle=False)
        return path

    def _write_chunks(self, name: str, part: int, variable: PsVariable, times: SaveTimes) -> Path:
        path = self._scratch / f"{name}.{part}.npy"
        with times.stream(variable.server) as stream, path.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": variable.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for _, rows in stream.read(self._io(variable).chunks()):
                file.write(np.ascontiguousarray(rows, "<f4").tobytes())
        return path

    def _upload(self, directory: str, file: _File, times: SaveTimes) -> Part:
        path = file.path
        entry = Part(file.tensor, path.name, file.part, file.parts, path.stat().st_size, manifest.checksum_of(path))
        with nullcontext() if file.server is None else times.stream(file.server) as stream:
            storage.upload(str(path), storage.join(self._url, directory, path.name))
            if stream is not None:
                stream.bytes = entry.size
        path.unlink()
        return entry


def _read(server: int, question: Callable[[], dict[str, Any]], times: SaveTimes) -> dict[str, Any]:
    """What a server answers, all at once: it is small."""
    with times.stream(server) as stream:
        values = stream.ask(question)
        stream.bytes = sum(value.nbytes for value in values.values())
    return values
