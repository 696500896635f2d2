"""The first records of a data set as files of their own, byte for byte (TFRecord) or row for row (Parquet)."""

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from afo.data.io.formats import PARQUET, is_parquet
from afo.data.io.split_files import SplitFile
from afo.data.io.tfrecord import RecordWriter, compression_of, read_records
from afo.errors import DataError
from afo.job import Data


class Part(Struct, frozen=True):
    """The first `records` records of a file."""

    file: SplitFile
    records: int


def first_parts(files: Sequence[SplitFile], data: Data, limit: int) -> tuple[Part, ...]:
    """What the first `limit` records, or all if there are fewer, are parts of. Raises DataError where there is none.

    Damaged records count for nothing where the job allows some; else they raise DataError.
    """
    parts: list[Part] = []
    left = limit
    for file in files:
        records = _count(file.url, data, left)
        if records:
            parts.append(Part(file, records))
            left -= records
        if not left:
            break
    if not parts:
        raise DataError(f"{files[0].url}: there are no records in this file, nor in {len(files) - 1} more")
    return tuple(parts)


def suffix(file: SplitFile, data: Data) -> str:
    """How a name ends that is read as this file is."""
    return PARQUET if is_parquet(data.format, file.url) else ".tfrecord"


def write_part(part: Part, data: Data, url: str) -> None:
    """Write the records into a new file, which appears when it is whole."""
    source = part.file.url
    if is_parquet(data.format, source):
        from afo.data.io import parquet

        parquet.copy_rows(source, part.records, url)
        return
    with RecordWriter(url, compression_of(source) if data.compression == "auto" else data.compression) as writer:
        for record in islice(_records(source, data), part.records):
            writer.write(record)


def _count(url: str, data: Data, most: int) -> int:
    if is_parquet(data.format, url):
        from afo.data.io import parquet

        return min(most, parquet.facts(url)[0])
    return sum(1 for _ in islice(_records(url, data), most))


def _records(url: str, data: Data) -> Iterator[bytes]:
    return read_records(url, data.compression, [] if data.max_bad_records else None)
