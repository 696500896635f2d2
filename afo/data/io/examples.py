"""Records of a data file by feature name, whatever its format, and the check of a job's first ones."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from afo import storage
from afo.data.example import Values, decode
from afo.data.io.bad_records import misfit_of_count, misfit_of_label
from afo.data.io.compression import Compression
from afo.data.io.formats import is_parquet
from afo.data.io.split_files import SplitFile
from afo.data.io.tfrecord import read_stream
from afo.data.schema import Schema
from afo.errors import DataError
from afo.job import Data
from afo.storage.url import ByteRange

#: Records of the first training and evaluation file that are compared with the schema.
FIRST_RECORDS = 100
#: So many files in their order may be without any.
EMPTY_FILES = 100
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


def check_first(sets: Iterable[Sequence[SplitFile]], data: Data, schema: Schema) -> None:
    """Hold the first records of each set of files against the schema, and all that the job reads of records.

    Raises DataError.
    """
    for files in sets:
        if files:
            url, records = _first_records([file.url for file in files[:EMPTY_FILES]], data, schema)
            _require_outputs(records, data, url)
            validate_first(schema, records, data, url)
            if not data.max_bad_records:
                _check_outputs(records, data, url)


def _first_records(urls: list[str], data: Data, schema: Schema) -> tuple[str, list[dict[str, Values]]]:
    """The first of the files that holds any, and those."""
    damaged: list[DataError] | None = [] if data.max_bad_records else None
    outputs = (*data.labels, data.weight, data.sample_id, schema.label, schema.sample_id)
    only = {name for name in (*schema.names, *outputs) if name}
    for url in urls:
        if records := first_examples(url, data, FIRST_RECORDS, only, damaged):
            return url, records
    raise DataError(f"$.data: {urls[0]} and the {len(urls) - 1} files behind it hold no records")


def _require_outputs(records: list[dict[str, Values]], data: Data, url: str) -> None:
    present = {name for record in records for name in record}
    for key, name in _outputs(data):
        if name not in present:
            known = ", ".join(sorted(present)[:20])
            raise DataError(
                f"$.data.{key}: {url}: feature `{name}` is in none of the first {len(records)} records; "
                f"there are: {known or 'none'}"
            )


def _check_outputs(records: list[dict[str, Values]], data: Data, url: str) -> None:
    for number, record in enumerate(records):
        for key, name in _outputs(data):
            if wrong := _misfit_of_output(key, name, record.get(name, [])):
                raise DataError(f"$.data.{key}: {url}: record {number}: {wrong}")


def _outputs(data: Data) -> Iterator[tuple[str, str]]:
    """What the job reads of each record besides the features: key of the job file and name."""
    yield from (("label", name) for name in data.labels)
    yield from ((key, name) for key, name in (("weight", data.weight), ("sample_id", data.sample_id)) if name)


def _misfit_of_output(key: str, name: str, values: Values) -> str:
    return misfit_of_count(name, values) or (misfit_of_label(name, values[0]) if key == "label" else "")


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
