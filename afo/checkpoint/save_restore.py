"""Checkpoints: all variables of the parameter servers as files, and back.

The positions are read before the parameters. Other workers train on meanwhile, so the parameters may hold a few
batches more than the positions say: after a restore those are applied once more, and none is lost.
"""

import functools
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from afo import storage
from afo.checkpoint import manifest
from afo.checkpoint.manifest import Manifest, Part
from afo.checkpoint.metadata import Origin
from afo.embedding import checkpoint as tables
from afo.embedding.checkpoint import TableSaver
from afo.embedding.save_times import SaveTimes
from afo.embedding.saved_tables import Rows, read_rows
from afo.errors import CheckpointLost, DataError, NotFound
from afo.logs.task_log import LOG
from afo.params import initialize
from afo.params.parameters import Parameter, Parameters
from afo.params.variables import PsVariable, VariableIo
from afo.rpc.messages import HashTables, ServerPart

#: Files of one checkpoint that are sent at a time. A small one costs several round trips and hardly any bytes.
_SENDERS = 8
_T = TypeVar("_T")


def tensors(parameter: Parameter) -> Iterator[tuple[str, tuple[PsVariable, ...]]]:
    """Names of a parameter's tensors (weights and slots) and the variables of their shards."""
    yield parameter.name, tuple(shard.weights for shard in parameter.shards)
    for number, slot in enumerate(parameter.rule.slots):
        yield f"{parameter.name}.{slot}", tuple(shard.slots[number] for shard in parameter.shards)


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

    def begin(self) -> str:
        """A directory of its own for each try: what a manifest names is never written again."""
        return f"g{self._generation:06d}-{secrets.token_hex(6)}"

    def save(self, directory: str, *, final: bool) -> Saved:
        """Write a checkpoint into `directory`."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        began, times = time.monotonic(), SaveTimes()
        counters = [(variable, self._read(variable, times)) for variable in reversed(self._parameters.counters)]
        by_name = {variable.name: value for variable, value in counters}
        step, positions = int(by_name["afo/step"]), by_name["afo/positions"]
        parts = self._send(directory, counters, times)
        evicted = self._evict(step)
        saved_tables, base = self._save_tables(directory, incremental=not final, times=times)
        keys, sizes = self._sizes()
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
                servers=times.parts(),
            ),
        )
        self._before = directory
        if not ours and self._tables is not None:
            self._tables.forget()
        tables = None if self._tables is None else HashTables(rows=sum(keys.values()), bytes=sizes, evicted=evicted)
        return Saved(url, step, positions, tables, times.parts())

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

    def _send(self, directory: str, counters: list[tuple[PsVariable, Any]], times: SaveTimes) -> tuple[Part, ...]:
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
            for file in self._files(counters, times):
                room.acquire()
                if broken.is_set():
                    break
                sent.append(pool.submit(send, file))
        return tuple(part.result() for part in sent)

    def _files(self, counters: list[tuple[PsVariable, Any]], times: SaveTimes) -> Iterator[_File]:
        """Writes file after file to the local disk."""
        for variable, value in counters:
            name = variable.name.removeprefix("afo/")
            yield _File(name, self._write(name, 0, value))
        for table in self._parameters.tables:
            for name, shards in tensors(table):
                for part, variable in enumerate(shards):
                    path = self._write_chunks(name, part, variable, times)
                    yield _File(name, path, part, len(shards), variable.task)
        for name, shards in tensors(self._parameters.dense):
            yield _File(name, self._write(name, 0, np.concatenate([self._read(shard, times) for shard in shards])))

    def _read(self, variable: PsVariable, times: SaveTimes) -> Any:
        """The whole of a small variable."""
        with times.stream(variable.task) as stream:
            value = stream.ask(self._io(variable).read)
            stream.bytes = value.nbytes
        return value

    def _write(self, name: str, part: int, value: Any) -> Path:
        path = self._scratch / f"{name}.{part}.npy"
        np.save(path, value, allow_pickle=False)
        return path

    def _write_chunks(self, name: str, part: int, variable: PsVariable, times: SaveTimes) -> Path:
        path = self._scratch / f"{name}.{part}.npy"
        with times.stream(variable.task) as stream, path.open("wb") as file:
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


class CheckpointReader:
    """A checkpoint's tensors, verified, for any number of parameter servers or none."""

    def __init__(self, url: str, scratch: Path) -> None:
        """Fetches and verifies all files. Raises NotFound or DataError if the checkpoint is not complete."""
        self.url = url
        self.manifest = manifest.read_manifest(url)
        self._scratch = scratch / "restore"
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        self._parts: dict[str, list[tuple[Part, Path]]] = {}
        for part in self.manifest.parts:
            local = manifest.fetch_part(url, self.manifest, part, self._scratch)
            self._parts.setdefault(part.tensor, []).append((part, local))

    def __enter__(self) -> "CheckpointReader":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def whole(self, tensor: str) -> Any:
        """A tensor saved in one part."""
        [(_, array)] = self.parts(tensor)
        return np.array(array)

    def table(self, tensor: str, rows: int, width: int) -> Any:
        """All rows of a table, in their order. Raises DataError if it has another shape."""
        result = np.empty((rows, width), np.float32)
        for part, array in self.parts(tensor):
            target = result[part.part :: part.parts]
            self._check_shape(tensor, array.shape, target.shape)
            target[...] = array
        return result

    def parts(self, tensor: str) -> list[tuple[Part, Any]]:
        """The files of a tensor as arrays that are read when they are used."""
        if tensor not in self._parts:
            raise DataError(
                f"{self.url} holds no `{tensor}`, so it is of another model or optimizer; it holds "
                + ", ".join(self._parts)
            )
        return [
            (part, np.load(path, mmap_mode="r" if part.parts > 1 else None, allow_pickle=False))
            for part, path in self._parts[tensor]
        ]

    @property
    def directory(self) -> str:
        """That of all checkpoints beside it, which hold what its hash tables stand on."""
        return storage.parent(self.url)

    @property
    def tables_url(self) -> str:
        """Manifest of its hash tables. Raises DataError where it has none."""
        url = manifest.tables_url(self.url, self.manifest)
        if url is None:
            raise DataError(
                f"{self.url} holds no hash tables, so it is of another model (`model.embedding.storage`); start without"
                " this checkpoint"
            )
        return url

    def hash_tables(self, dims: Mapping[str, int]) -> dict[str, Rows]:
        """All rows of the hash tables of these names and widths.

        Raises NotFound, or DataError for damaged files, a table that is not there, or one of another width.
        """
        if not dims:  # a model of real numbers alone has none, and neither has its checkpoint
            return {}
        tables = read_rows(self.tables_url, self.directory)
        for name, dim in dims.items():
            found = tables[name].weights.shape[1] if name in tables else None
            if found != dim:
                what = f"holds no table `{name}`" if found is None else f"has `{name}` of width {found}, not {dim}"
                raise DataError(f"{self.url} {what}, so it is of another model; start without this checkpoint")
        return {name: tables[name] for name in dims}

    def check_rows(self, table: Parameter) -> None:
        """Raises DataError if the checkpoint's table has another number of rows than the model's."""
        saved = self.manifest.rows.get(table.name)
        if saved != table.rows:
            raise DataError(
                f"{self.url}: table `{table.name}` has {saved} rows and the model {table.rows}: schema, buckets or"
                " crosses have changed; start without this checkpoint"
            )

    def _check_shape(self, tensor: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        if found != wanted:
            raise DataError(
                f"{self.url}: `{tensor}` has the shape {list(found)} where the model needs {list(wanted)}: schema,"
                " buckets or embedding.dim have changed; start without this checkpoint"
            )


def from_newest_complete(
    url: str, checkpoint_url: str, scratch: Path, use: Callable[[CheckpointReader], _T]
) -> tuple[str, _T, list[str]]:
    """What `use` makes of the checkpoint at `url`, or of the newest older one that is complete.

    Returns that one's URL, the result, and why the others were not taken. Raises CheckpointLost if none is complete;
    hash tables are found to be damaged when they are used.
    """
    wanted = manifest.parse_name(url)
    older = [found.url for found in manifest.find_manifests(checkpoint_url) if found.age < wanted.age]
    problems: list[str] = []
    for candidate in [url, *reversed(older)]:
        try:
            with CheckpointReader(candidate, scratch) as reader:
                return candidate, use(reader), problems
        except (NotFound, DataError) as error:
            problems.append(str(error))
    raise CheckpointLost(
        f"no complete checkpoint is left in {checkpoint_url}, where step {wanted.step:,} was saved:"
        f" {'; '.join(problems)}; submit the job again, to begin anew or with `checkpoint.warm_start`"
    )


def restore(parameters: Parameters, reader: CheckpointReader, kept: Collection[int] = ()) -> int:
    """Create the variables out of a checkpoint; returns the step. Raises DataError for one of another model.

    Nothing is changed on the servers in `kept`; the position and the step that they hold are those to go on from.
    """
    for table in parameters.tables:
        reader.check_rows(table)
    initialize.create_empty(parameters, kept)
    for table in parameters.tables:
        for name, shards in tensors(table):
            for part, array in reader.parts(name):
                _scatter(array, part, shards, kept)
    for name, shards in tensors(parameters.dense):
        cut(reader.whole(name), shards, reader.url, kept)
    if parameters.embeddings is not None:
        lost = [server for server in range(parameters.servers) if server not in kept]
        tables.restore(parameters.embeddings, reader.tables_url, lost, reader.directory)
    step = 0
    for variable in parameters.counters:
        value = _restore_counter(parameters, variable, reader, kept)
        step = int(value) if variable is parameters.step else step
    return step


def _restore_counter(
    parameters: Parameters, counter: PsVariable, reader: CheckpointReader, kept: Collection[int]
) -> Any:
    """Returns the value that it has from now on."""
    places = parameters.places(counter)
    survivor = next((place for place in places if place.task in kept), None)
    value = VariableIo(survivor).read() if survivor else reader.whole(counter.name.removeprefix("afo/"))
    if value.shape != counter.shape:
        raise DataError(
            f"{reader.url}: `{counter.name}` has the shape {list(value.shape)} where this job needs"
            f" {list(counter.shape)}; start without this checkpoint"
        )
    for place in places:
        if place.task not in kept:
            VariableIo(place).assign(value)
    return value


def _scatter(array: Any, part: Part, shards: tuple[PsVariable, ...], kept: Collection[int]) -> None:
    """Rows of one file into the shards that own them now."""
    write = row_writer(shards, kept)
    chunk = shards[0].chunk_rows
    for start in range(0, len(array), chunk):
        values = array[start : start + chunk]
        write(part.part + part.parts * np.arange(start, start + len(values), dtype=np.int64), values)


def row_writer(shards: tuple[PsVariable, ...], kept: Collection[int] = ()) -> Callable[[Any, Any], None]:
    """A function (rows [n] of the whole tensor, values [n, …]) that overwrites them where they lie.

    Those on the servers in `kept` stay as they are.
    """
    places = {number: VariableIo(shard) for number, shard in enumerate(shards) if shard.task not in kept}

    def write(rows: Any, values: Any) -> None:
        for number, place in places.items():
            mine = rows % len(shards) == number
            if mine.any():
                place.write_rows(rows[mine] // len(shards), values[mine])

    return write


def cut(vector: Any, shards: tuple[PsVariable, ...], url: str, kept: Collection[int] = ()) -> None:
    """A whole vector into its shards, those on the servers in `kept` aside."""
    sizes = [shard.shape[0] for shard in shards]
    if vector.shape != (sum(sizes),):
        raise DataError(
            f"{url}: {vector.size} dense weights where the model has {sum(sizes)}: hidden_units have changed;"
            " start without this checkpoint"
        )
    for shard, values in zip(shards, np.split(vector, np.cumsum(sizes)[:-1]), strict=True):
        if shard.task not in kept:
            VariableIo(shard).assign(values)
