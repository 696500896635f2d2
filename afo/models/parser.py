"""The parser of a job's records."""

from afo.data.io.formats import is_parquet
from afo.data.schema import Schema
from afo.job import Data
from afo.models.records import RecordParser


def parser_of(schema: Schema, data: Data) -> RecordParser:
    """By the format of the files."""
    if not any(is_parquet(data.format, each) for each in (*data.train, *data.eval)):
        return RecordParser(schema, data)
    from afo.models.columns import ColumnParser

    return ColumnParser(schema, data)
