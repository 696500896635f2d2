"""Files of a job cut into splits, by their indexes."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from afo.data.io.record_index import how_to_index, index_url, read_index
from afo.data.io.split_files import SplitFile
from afo.data.io.tfrecord import compression_of
from afo.errors import DataError, NotFound
from afo.job import Data

#: Indexes that are read at once: each is a question to the file system.
_AT_ONCE = 16
_MIB = 1 << 20


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
