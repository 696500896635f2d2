"""Files of a data set: what its globs match, and the splits that they are cut into by their indexes.

Both are in the order that gives each split its number.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import msgspec
from msgspec.structs import replace

from afo import storage
from afo.data.io.formats import is_parquet
from afo.data.io.record_index import how_to_index, index_url, read_index
from afo.data.io.tfrecord import compression_of
from afo.errors import DataError, NotFound, SpecError
from afo.job import Data
from afo.storage.url import ByteRange

#: Indexes that are read at once: each is a question to the file system.
_AT_ONCE = 16
_MIB = 1 << 20

Format = Literal["tfrecord", "parquet"]


class SplitFile(msgspec.Struct, frozen=True):
    """One file of a data set, or a `part` of it; `size` of the file in bytes, `modified` in seconds since 1970."""

    url: str
    size: int
    modified: float = 0.0
    part: ByteRange | None = None


class DataFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a job reads: its files, all of one format, and the splits of its training files."""

    train: tuple[SplitFile, ...]
    eval: tuple[SplitFile, ...]
    splits: tuple[SplitFile, ...]
    format: Format


def find_files(data: Data) -> DataFiles:
    """The files of a job's data. Raises NotFound, SpecError or DataError, naming the key of the job file."""
    train = _find_key("train", data.train, data)
    evaluation = _find_key("eval", data.eval, data) if data.eval else ()
    found = _format((*train, *evaluation), data)
    if data.split_size is not None and found == "parquet":
        raise SpecError(f"$.data.split_size: {train[0].url} is Parquet, of which a file is a split; leave it out")
    return DataFiles(train=train, eval=evaluation, splits=cut_files(train, data), format=found)


def _find_key(key: str, globs: Iterable[str], data: Data) -> tuple[SplitFile, ...]:
    try:
        return find_splits(globs)
    except NotFound as error:
        waits = "; `afo submit` waits for the markers of `data.wait_for`" if data.wait_for else ""
        raise NotFound(f"$.data.{key}: {error}{waits}") from error


def _format(files: Iterable[SplitFile], data: Data) -> Format:
    """The one format of all files. Raises DataError where there are two."""
    urls = [file.url for file in files]
    parquet = [url for url in urls if is_parquet(data.format, url)]
    if not parquet:
        return "tfrecord"
    if len(parquet) < len(urls):
        other = next(url for url in urls if not is_parquet(data.format, url))
        raise DataError(
            f"$.data: {parquet[0]} is Parquet by its name and {other} is not; a job reads one format: narrow the "
            "globs, or say `data.format: parquet` or `tfrecord` if all files are of it"
        )
    return "parquet"


def find_splits(globs: Iterable[str]) -> tuple[SplitFile, ...]:
    """The files that the globs (dates already expanded) match, each once, sorted by URL.

    Names that begin with `_` or `.` are no data (`_SUCCESS`, files being written) and skipped. Raises NotFound, naming
    the glob that matches nothing, and DataError for a pipe or device, which has no end or no beginning to go back to.
    """
    found: dict[str, SplitFile] = {}
    for pattern in globs:
        matched = [file for file in storage.glob(pattern) if not storage.name(file.url).startswith(("_", "."))]
        if not matched:
            raise NotFound(f"no data file matches {pattern}; {_hint(pattern)}")
        for file in matched:
            if file.special:
                raise DataError(f"{file.url} is {file.special}, not a regular file; write what it yields to a file")
        found.update({file.url: SplitFile(file.url, file.size, file.modified) for file in matched})
    return tuple(found[url] for url in sorted(found))


def _hint(pattern: str) -> str:
    base = pattern.rstrip("/")
    if storage.exists(base) and storage.info(base).is_dir:
        return f"it is a directory: write {base}/*"
    return "check the path (a name that begins with _ or . is no data)"


def cut_files(files: Iterable[SplitFile], data: Data) -> tuple[SplitFile, ...]:
    """The splits of TFRecord files, in the order that gives each its number: without `data.split_size`, the files.

    Files of that size or less, and compressed ones, are a split each. Raises DataError for a larger one without an
    index, or whose index is damaged or of another file.
    """
    if data.split_size is None:
        return tuple(files)
    most = int(data.split_size) * _MIB
    with ThreadPoolExecutor(_AT_ONCE, "afo-index") as threads:
        return tuple(
            split for splits in threads.map(lambda file: _cut_file(file, most, data), files) for split in splits
        )


def _cut_file(file: SplitFile, most: int, data: Data) -> tuple[SplitFile, ...]:
    if file.size <= most or data.compression in ("gzip", "zlib"):
        return (file,)
    try:
        index = read_index(file.url, file.size)
    except NotFound as error:
        if data.compression == "auto" and compression_of(file.url) != "none":
            return (file,)
        raise DataError(
            f"$.data.split_size: {file.url} has {file.size:,} bytes and no index ({index_url(file.url)}) to be cut by:"
            f" {how_to_index(file.url)}, or leave `split_size` out, so that each file is a split"
        ) from error
    return tuple(replace(file, part=part) for part in index.parts(most))
