"""Records of a data file by feature name, whatever its format."""

from collections.abc import Collection, Iterator
from itertools import islice

from afo import storage
from afo.data.example import Values, decode
from afo.data.io.compression import Compression
from afo.data.io.formats import is_parquet
from afo.data.io.tfrecord import read_stream
from afo.data.schema import Schema
from afo.errors import DataError
from afo.job import Data
from afo.storage.url import ByteRange

#: Of records that are only looked at: read as their names say.
LOOK = Data(train=("*",))


def first_examples(
    url: str,
    data: Data,
    count: int,
    only: Collection[str] | None = None,
    damaged: list[DataError] | None = None,
    called: str = "",
    part: ByteRange | None = None,
) -> list[dict[str, Values]]:
    """The first `count` records of a file, which errors call `called`, or of a part of it.

    Of features not among `only` the names alone.

    Raises DataError with file and place of one that is damaged; with a list for `damaged` its error goes there instead.
    """
    name = called or url
    if is_parquet(data.format, name):
        from afo.data.io import parquet

        names = None if only is None else only.__contains__
        return list(islice(parquet.rows(name, names, url), count))
    found = islice(_decode_records(url, data.compression, only, damaged, name, part), count)
    return list(found)


def validate_first(schema: Schema, records: list[dict[str, Values]], data: Data, source: str) -> None:
    """Hold the first records of `source` against the schema, as `Schema.validate_against` does.

    Where the job allows bad records, single ones that do not fit are none of this function's business.
    """
    if data.max_bad_records > 0:
        records = [record for record in records if not schema.misfit(record)] or records
    schema.validate_against(records, source)


def _decode_records(
    url: str,
    compression: Compression,
    only: Collection[str] | None,
    damaged: list[DataError] | None,
    called: str,
    part: ByteRange | None,
) -> Iterator[dict[str, Values]]:
    with storage.open_input(url) as file:
        for number, record in enumerate(read_stream(file, called, compression, damaged, part)):
            try:
                yield decode(record, only)
            except DataError as error:
                named = DataError(f"{called}: record {number}: {error}")
                if damaged is None:
                    raise named from error
                damaged.append(named)
