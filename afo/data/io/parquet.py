"""Parquet files: columns as arrays of a schema's features, and rows as if they were records.

A column is one value a row, or a list of values. What stands for which kind of feature:

    categorical   integers of any width and booleans
    dense         real numbers, decimals, integers and booleans
    string        strings and binaries

Null is absent; within a list it is padding. Columns of other types (nested ones, dates, times) can be there and are
not read. No TensorFlow here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from afo import storage
from afo.data.example import ListKind, Values
from afo.data.feature import Feature
from afo.data.io import arrays
from afo.data.io.tfrecord import is_header, read_head, text_hint
from afo.errors import DataError

#: Numbers that are decoded at once, those of lists counted each; a string takes as much memory as several.
_BLOCK, _STRING = 1 << 23, 16
#: Blocks of more rows begin at a multiple of so many: then the batches that are cut from them are aligned in memory.
_ROUND_ROWS = 1 << 14
#: Rows that are taken apart at once, which takes much longer than to decode them: most callers want a few.
_ROWS_AS_RECORDS = 256
_TARGET = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.large_binary()}


_Item = TypeVar("_Item")


def prefetch(items: Iterable[_Item]) -> Iterator[_Item]:
    """The same items, each made by another thread while the one before it is used; raises what they raise.

    When it is closed, nothing is under way any more.
    """
    source = iter(items)
    over = object()
    with ThreadPoolExecutor(1, "ahead") as thread:
        coming = thread.submit(next, source, over)
        while (item := coming.result()) is not over:
            coming = thread.submit(next, source, over)
            yield item  # type: ignore[misc]


class Column(NamedTuple):
    """A column as arrays: `values` [n, size] with defaults in place of what is absent, and which rows fit [n].

    `fits` None: all of them do.
    """

    values: Any
    fits: NDArray[np.bool_] | None = None


@contextmanager
def open_parquet(url: str, path: str = "") -> Iterator[pq.ParquetFile]:
    """A Parquet file, read at `path` if given. Raises DataError by the name `url` when it is none or damaged."""
    with storage.open_input(path or url) as file:
        try:
            yield pq.ParquetFile(pa.PythonFile(file, mode="r"))
        except (pa.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            hint = _hint(path or url) or "; write the file again"
            raise DataError(f"{url}: it cannot be read as Parquet: {reason}{hint}") from error


def _hint(url: str) -> str:
    """What a file is that is no Parquet, as far as its first bytes tell."""
    try:
        head = read_head(url)
    except DataError:
        return ""
    if is_header(head):
        return "; it looks like TFRecord: say `data.format: tfrecord`"
    return "" if head.startswith(b"PAR1") else text_hint(head)


def facts(url: str) -> tuple[int, str]:
    """Rows of a file and the compression of its first column, as its footer says. Raises DataError."""
    with open_parquet(url) as file:
        footer = file.metadata
        first = footer.row_group(0) if footer.num_row_groups else None
        compression = first.column(0).compression if first is not None and first.num_columns else "NONE"
        return int(footer.num_rows), compression.replace("UNCOMPRESSED", "NONE").lower()


def unread_columns(url: str) -> dict[str, str]:
    """Columns that can be no features, and their types. Raises DataError."""
    with open_parquet(url) as file:
        return {field.name: str(field.type) for field in file.schema_arrow if kind_of_type(field.type) is None}


def copy_rows(url: str, count: int, target: str) -> None:
    """The first `count` rows as a new file `target`, which appears when it is whole. Raises DataError."""
    with open_parquet(url) as file, storage.open_output(target) as output:
        left = count
        with pq.ParquetWriter(pa.PythonFile(output, mode="w"), file.schema_arrow) as writer:
            for batch in file.iter_batches(_rows_at_once(file.metadata, file.schema_arrow.names), use_threads=False):
                writer.write_batch(batch.slice(0, left))
                left -= batch.num_rows
                if left <= 0:
                    break


def batches(file: pq.ParquetFile, columns: Collection[str], most: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows in their order, of the named columns that the file holds; `most` at once, or so many as is quickest.

    Raises ArrowInvalid for a column that is there twice, of which Arrow would give none.
    """
    known = [name for name in file.schema_arrow.names if name in columns]
    if len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise pa.ArrowInvalid(f"column {twice!r} is there more than once, and which one is meant, nobody can tell")
    # Arrow has as many threads as OMP_NUM_THREADS says, which in a container is its number of cores.
    threads = pa.cpu_count() > 1
    found = file.iter_batches(most or _rows_at_once(file.metadata, known), columns=known, use_threads=threads)
    return prefetch(found)


def _rows_at_once(footer: pq.FileMetaData, columns: Collection[str]) -> int:
    """Rows that hold `_BLOCK` values of these columns, as in the first group of rows; the same on every machine."""
    if not footer.num_row_groups or not footer.row_group(0).num_rows:
        return _ROUND_ROWS
    group = footer.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    wanted = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in columns]
    values: int = sum(chunk.num_values * (_STRING if chunk.physical_type == "BYTE_ARRAY" else 1) for chunk in wanted)
    rows = max(1, _BLOCK * int(group.num_rows) // max(values, int(group.num_rows)))
    return rows if rows < _ROUND_ROWS else rows - rows % _ROUND_ROWS


def column(batch: pa.RecordBatch, feature: Feature, url: str) -> Column:
    """A feature's values; a file without such a column lacks it in every row.

    Raises DataError for a column of another kind, or with values that the kind cannot hold.
    """
    rows, place = batch.num_rows, batch.schema.get_field_index(feature.name)
    if place < 0:
        return Column(_defaults(feature, rows))
    array = batch.column(place)
    if feature.size == 1 and not array.null_count and not is_list(array.type):
        return Column(_of_kind(array, feature, url).reshape(-1, 1))
    return _pad_lists(array, feature, url)


def _pad_lists(array: pa.Array, feature: Feature, url: str) -> Column:
    values, size = _defaults(feature, len(array)), feature.size
    flat, lengths = _flat(array, feature, url)
    starts = np.cumsum(lengths) - lengths
    absent = array.is_null().to_numpy(zero_copy_only=False)
    fits = None if feature.max_length else (lengths == size) | absent
    places = np.arange(size)
    inside = places < lengths[:, None]
    if fits is not None:
        inside &= fits[:, None]
    values[inside] = flat[(starts[:, None] + places)[inside]]
    return Column(values, fits)


def _defaults(feature: Feature, rows: int) -> NDArray[Any]:
    """What rows without the feature have: [rows, size]."""
    dtype = {"int64": np.int64, "float": np.float32, "bytes": object}[feature.list_kind]
    values = arrays.empty((rows, feature.size), dtype)
    values[:] = [value.encode() if isinstance(value, str) else value for value in feature.defaults()]
    return values


def _flat(array: pa.Array, feature: Feature, url: str) -> tuple[Any, NDArray[np.int64]]:
    """All values one behind the other, and how many of them each row has."""
    if is_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        array = pc.list_flatten(array)
    else:
        lengths = array.is_valid().cast(pa.int64())
        array = array.drop_null()
    return _of_kind(array, feature, url), lengths.to_numpy(zero_copy_only=False).astype(np.int64)


def _of_kind(array: pa.Array, feature: Feature, url: str) -> Any:
    """Values as numpy holds them; null is the value that pads."""
    # Still lists: they were lists of lists.
    kind = None if is_list(array.type) else kind_of_type(array.type)
    target = _TARGET[feature.list_kind]
    if kind is None or not _fits(kind, feature.list_kind):
        raise DataError(
            f"{url}: column `{feature.name}` holds {array.type} values where the schema needs {feature.kind}"
        )
    if array.type == target and not array.null_count:
        return _to_numpy(array)
    default = feature.defaults()[0]
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_decimal(array.type):
            array = array.cast(pa.float64())
        if pa.types.is_uint64(array.type) and target == pa.int64():
            array = array.view(target)  # an id is its bits, whatever the highest one means
        # A 32-bit number is what a feature is: rounding to it is no loss that anybody could avoid.
        array = array.cast(target, safe=feature.list_kind != "float")
        filled = pc.fill_null(array, default.encode() if isinstance(default, str) else default)
    except pa.ArrowException as error:
        raise DataError(f"{url}: column `{feature.name}`: {str(error).partition(chr(10))[0]}") from error
    return _to_numpy(filled)


def _to_numpy(array: pa.Array) -> Any:
    """An array without null as numpy has it: of numbers the same memory, which `to_numpy` would call read-only."""
    if not pa.types.is_primitive(array.type) or not len(array):
        return array.to_numpy(zero_copy_only=False)
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds any number of values a row."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def kind_of_type(kind: pa.DataType) -> ListKind | None:
    """Which list of a `tf.Example` would hold such values; None for types that are not read."""
    if is_list(kind) and is_list(kind.value_type):
        return None
    if pa.types.is_dictionary(kind) or is_list(kind):
        return kind_of_type(kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "int64"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float"
    types = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return "bytes" if any(matches(kind) for matches in types) else None


def _fits(found: ListKind, wanted: ListKind) -> bool:
    return found == wanted or (found, wanted) == ("int64", "float")


def rows(url: str, only: Callable[[str], bool] | None = None, path: str = "") -> Iterator[dict[str, Values]]:
    """Row after row as the features of a record would be, of columns that can be features; null is absent.

    Of columns that `only` refuses no values are read, as if their lists were empty. Raises DataError.
    """
    with open_parquet(url, path) as file:
        kinds = {field.name: kind for field in file.schema_arrow if (kind := kind_of_type(field.type))}
        read = [name for name in kinds if only is None or only(name)]
        unread: dict[str, Values] = {name: [] for name in kinds.keys() - set(read)}
        for batch in batches(file, read, _ROWS_AS_RECORDS):
            columns = {name: _row_values(batch.column(name), kinds[name], name, url) for name in read}
            for row in range(batch.num_rows):
                yield unread | {name: found for name, values in columns.items() if (found := values[row]) is not None}


def _row_values(array: pa.Array, kind: ListKind, name: str, url: str) -> list[Values | None]:
    """The values of each row, None for null."""
    kinds: dict[ListKind, Any] = {"int64": "categorical", "float": "dense", "bytes": "string"}
    flat, lengths = _flat(array, Feature(name=name, kind=kinds[kind]), url)
    absent = array.is_null().to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    return [
        None if absent[row] else (list(part) if kind == "bytes" else part)
        for row, part in enumerate(np.split(flat, ends[:-1]))
    ]
