"""Reader of checkpoints, and their way back into the parameter servers."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from afo import storage
from afo.checkpoint import manifest, tensor_file
from afo.checkpoint.manifest import Part
from afo.checkpoint.save import tensors
from afo.embedding import checkpoint as tables
from afo.errors import CheckpointLost, DataError, NotFound
from afo.logs.task_log import LOG
from afo.state import initialize
from afo.state.parameters import Parameter, Parameters, no_positions, range_of
from afo.state.server_state import ServerState, server_states
from afo.state.variables import PsVariable, VariableIo
from afo.tables.merged_rows import MergedRows, merge_rows
from afo.tables.saved_tables import Rows, TablesManifest, chain, read_rows

_T = TypeVar("_T")
#: What a process takes beside hash tables: TensorFlow, its threads, batches. Bytes.
_OWN_BYTES = 1 << 30
#: Bytes of memory that a byte of saved hash tables takes at most while they are read into memory, beside those of an
#: earlier checkpoint; 2.7 to 4.7 were measured without those.
_OF_A_BYTE = 5


class CheckpointReader:
    """A checkpoint's tensors, verified, for any number of parameter servers or none."""

    def __init__(self, url: str, scratch: Path, memory: int | None = None) -> None:
        """Fetches and verifies all files. Raises NotFound or DataError if the checkpoint is not complete.

        `memory`: bytes that this process may take; None: as many as its hash tables need.
        """
        self.url = url
        self._memory = memory
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

    def whole(self, tensor: str, dtype: str = "float32") -> Any:
        """A tensor saved in one part. Raises DataError for another type or more parts."""
        parts = self.parts(tensor, dtype)
        if len(parts) > 1:
            raise DataError(f"{self.url} has `{tensor}` in {len(parts)} parts, so it is of another model")
        return np.array(parts[0][1])

    def table(self, tensor: str, rows: int, width: int) -> Any:
        """All rows of a table, in their order. Raises DataError if it has another shape."""
        result = np.empty((rows, width), np.float32)
        for part, array in self.parts(tensor):
            target = result[part.part :: part.parts]
            self._check_shape(tensor, array.shape, target.shape)
            target[...] = array
        return result

    def parts(self, tensor: str, dtype: str = "float32") -> list[tuple[Part, Any]]:
        """The files of a tensor as arrays that are read when they are used. Raises DataError for another type."""
        if tensor not in self._parts:
            raise DataError(
                f"{self.url} holds no `{tensor}`, so it is of another model or optimizer; it holds "
                + ", ".join(self._parts)
            )
        return [
            (part, tensor_file.load(path, f"{self.url}: {part.file}", dtype, mapped=part.parts > 1))
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

    @cached_property
    def is_large(self) -> bool:
        """Whether its hash tables are more than memory may take. Raises NotFound, or DataError for a bad manifest."""
        if self._memory is None or manifest.tables_url(self.url, self.manifest) is None:
            return False
        size = sum(entry.size for _, tables in self._table_manifests for entry in tables.files)
        return _OF_A_BYTE * size > self._memory - _OWN_BYTES

    @cached_property
    def _table_manifests(self) -> list[tuple[str, TablesManifest]]:
        """That of its hash tables, behind those that it stands on."""
        return chain(self.tables_url, self.directory)

    def hash_tables(self, dims: Mapping[str, int]) -> Mapping[str, Rows | MergedRows]:
        """All rows of the hash tables of these names and widths: in memory, or merged where they are large.

        Raises NotFound, DataError for damaged files, a table that is not there, or one of another width, and
        StorageError where there is no room for files.
        """
        if not dims:  # a model of real numbers alone has none, and neither has its checkpoint
            return {}
        self._check_tables(dims)
        if self.is_large:
            LOG.info("hash tables of %s are merged in files: they may not fit into this process's memory", self.url)
            return merge_rows(self.tables_url, self._scratch, self.directory, dims)
        tables = read_rows(self.tables_url, self.directory)
        return {name: tables[name] for name in dims}

    def bases(self) -> list[str]:
        """Directories of the checkpoints that its hash tables stand on, beside its manifest."""
        prefix = f"{self.directory.rstrip('/')}/"
        return [path.removeprefix(prefix).split("/")[0] for path, _ in self._table_manifests[:-1]]

    def changed_tables(self, dims: Mapping[str, int], base: str) -> Mapping[str, MergedRows]:
        """What became of the hash tables since the checkpoint in the directory `base`, one of `bases`. Raises as
        `hash_tables` does."""
        self._check_tables(dims)
        after = self._table_manifests[self.bases().index(base)][0]
        return merge_rows(self.tables_url, self._scratch, self.directory, dims, after=after)

    def _check_tables(self, dims: Mapping[str, int]) -> None:
        saved = {table.name: table.dim for table in self._table_manifests[-1][1].tables}
        for name, dim in dims.items():
            found = saved.get(name)
            if found != dim:
                what = f"holds no table `{name}`" if found is None else f"has `{name}` of width {found}, not {dim}"
                raise DataError(f"{self.url} {what}, so it is of another model; start without this checkpoint")

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
    states = server_states(parameters)
    write_dense(parameters, states, {name: reader.whole(name) for name in parameters.dense.tensors}, reader.url, kept)
    if parameters.embeddings is not None:
        lost = [server for server in range(parameters.servers) if server not in kept]
        tables.restore(parameters.embeddings, reader.tables_url, lost, reader.directory)
    records = _records_to_go_on_from(parameters, states, reader, kept)
    for server, state in enumerate(states):
        if server not in kept:
            initialize.write_records(parameters, state, server, records)
    return int(records["step"])


def _records_to_go_on_from(
    parameters: Parameters, states: Sequence[ServerState], reader: CheckpointReader, kept: Collection[int]
) -> dict[str, Any]:
    """Those of the first server in `kept` that has them, others out of the checkpoint."""
    survivors = [states[server].read_records() for server in sorted(kept) if parameters.records_on(server)]
    found = {}
    for name, record in parameters.records.items():
        held = [values[name] for values in survivors if name in values]
        value = held[0] if held else reader.whole(name, record.dtype)
        if name == "positions" and value.shape[1:] == record.shape[1:]:  # the list of splits may have grown since
            value = np.concatenate([value, no_positions(max(0, record.shape[0] - len(value)))])
        found[name] = value
        if value.shape != record.shape:
            raise DataError(
                f"{reader.url}: `{record.name}` has the shape {list(value.shape)} where this job needs"
                f" {list(record.shape)}; start without this checkpoint"
            )
    return found


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
    places = {number: VariableIo(shard) for number, shard in enumerate(shards) if shard.server not in kept}

    def write(rows: Any, values: Any) -> None:
        for number, place in places.items():
            mine = rows % len(shards) == number
            if mine.any():
                place.write_rows(rows[mine] // len(shards), values[mine])

    return write


def write_dense(
    parameters: Parameters, states: Sequence[ServerState], values: Mapping[str, Any], url: str,
    kept: Collection[int] = (),
) -> None:  # fmt: skip
    """The whole dense vector and its slots to the servers, those in `kept` aside. Raises DataError for another size."""
    size = parameters.dense.rows
    for vector in values.values():
        if vector.shape != (size,):
            raise DataError(
                f"{url}: {vector.size} dense weights where the model has {size}: hidden_units have changed;"
                " start without this checkpoint"
            )
    for server, state in enumerate(states):
        if server not in kept:
            start, stop = range_of(size, server, parameters.servers)
            state.write_weights({name: vector[start:stop] for name, vector in values.items()})
