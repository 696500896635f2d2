"""Rows of CSV files: how they are written, and where in them something is wrong."""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

import msgspec

from afo import storage
from afo.errors import DataError, SpecError

#: How names of CSV files end, and the character between their cells; `.gz` may follow.
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_GZIP = ".gz"
#: How files begin that are none, and what they are.
_OTHERS = {
    b"PAR1": "Parquet, which a job reads as it is",
    b"\xff\xfe": "text in UTF-16; convert it: `iconv -f UTF-16 -t UTF-8`",
    b"\x1f\x8b": f"compressed, and read so if its name ends in `{_GZIP}`",
}
#: Bytes of a line.
MOST_LINE = 16 << 20


class CsvFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How CSV files are written, and how their label becomes 0 or 1."""

    #: Names of the columns; None: the first line names them.
    columns: tuple[str, ...] | None = None
    #: None: a tab in `.tsv` files, else a comma.
    delimiter: str | None = None
    #: Between the values of one cell; empty: a cell is one value.
    separator: str = ""
    #: Lines before the header or the first row that hold no data.
    skip_lines: int = 0
    #: Take blanks away from both ends of every cell.
    strip: bool = False
    #: Cells that mean "no value", as empty ones do; the record lacks the feature then, and readers take its default.
    missing: tuple[str, ...] = ()
    #: Column of the label; None: the one named as the schema's label.
    label: str | None = None
    #: Column of the samples' weights, which a schema does not name; None: there is none.
    weight: str | None = None
    #: Cells of the label column that mean 1, all others 0; empty: the cells are 0 or 1.
    positive: tuple[str, ...] = ()

    def values(self, cell: str) -> list[str]:
        """The values of a cell; none where it is missing."""
        return [part for part in self.parts(cell) if part is not None]

    def parts(self, cell: str) -> list[str | None]:
        """The values of a cell by their places in it, None where one is missing."""
        parts = cell.split(self.separator) if self.separator else [cell]
        return [part if part and part not in self.missing else None for part in parts]

    def is_csv(self, url: str) -> bool:
        """Whether a file is CSV: by its name, or because how it is written is given."""
        given = self.columns is not None or self.delimiter is not None
        return given or url.removesuffix(_GZIP).endswith(tuple(_DELIMITERS))

    def delimiter_of(self, url: str) -> str:
        """The character between cells. Raises SpecError for one that is none."""
        found = self.delimiter or _DELIMITERS.get(url.removesuffix(_GZIP)[-4:], ",")
        if len(found) != 1 or found in '"\r\n':
            raise SpecError(f"delimiter {found!r} must be one character, and no quote or end of a line")
        return found


#: With a header, and cells as they are.
PLAIN = CsvFormat()


def single_column_hint(columns: Sequence[str]) -> str:
    """What to say of rows of one column whose name shows another delimiter; empty of others."""
    other = next((one for one in ";\t|," if len(columns) == 1 and one in columns[0]), "")
    return f"there is one column only; is its delimiter another one: --delimiter {other!r}?" if other else ""


def csv_compression(url: str) -> str:
    """How a CSV file is compressed, by its name."""
    return "gzip" if url.endswith(_GZIP) else "none"


class CsvRows:
    """Rows of cells, as many as there are columns. To be iterated once; blank rows are passed over.

    `columns` are known after `begin`; there are none in an empty file.
    """

    def __init__(self, file: BinaryIO, csv_format: CsvFormat, delimiter: str) -> None:
        self._format = csv_format
        #: The line of the file that was read last, or that could not be read, from 1; and where its row began.
        self.line = self.row_line = 1
        self._reader = csv.reader(
            self._lines(file, csv_format.skip_lines),
            delimiter=delimiter,
            skipinitialspace=csv_format.strip,
            strict=True,
        )
        self.columns = csv_format.columns or ()

    def begin(self) -> None:
        """Read the header, if there is one."""
        if not self.columns:
            self.columns = _header(next(self._rows(), []))

    def __iter__(self) -> Iterator[list[str]]:
        for cells in self._rows():
            if len(cells) != len(self.columns):
                raise DataError(f"{len(cells)} cells where {len(self.columns)} columns are expected")
            yield cells

    def _rows(self) -> Iterator[list[str]]:
        begun = self._format.skip_lines
        while True:
            self.row_line = begun + self._reader.line_num + 1
            cells = next(self._reader, None)
            if cells is None:
                return
            found = [cell.strip() for cell in cells] if self._format.strip else cells
            if any(found):
                yield found

    def _lines(self, file: BinaryIO, skipped: int) -> Iterator[str]:
        number = 0
        while line := self._line(file, number):
            number += 1
            if number == 1:
                _require_text(line)
            if number > skipped:
                yield line.decode("utf-8-sig")

    def _line(self, file: BinaryIO, before: int) -> bytes:
        line = file.readline(MOST_LINE + 1)
        self.line = before + 1 if line or not before else before
        if len(line) > MOST_LINE:
            raise DataError(f"a line has more than {MOST_LINE:,} bytes")
        return line


@contextmanager
def open_csv(url: str, csv_format: CsvFormat) -> Iterator[CsvRows]:
    """The rows of a file. What is wrong while they are read is a DataError with file and line."""
    delimiter = csv_format.delimiter_of(url)
    with storage.open_input(url) as file:
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if url.endswith(_GZIP) else file
        rows = CsvRows(unpacked, csv_format, delimiter)
        try:
            rows.begin()
            yield rows
        except (DataError, csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            begun = f"; its row begins in line {rows.row_line:,}" if rows.row_line < rows.line else ""
            raise DataError(f"{url}:{rows.line}: {_in_words(error)}{begun}") from error


def _in_words(error: Exception) -> str:
    """An error of Python's readers, with what to do about it where they say what a programmer should do."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} of the line is not UTF-8; convert the file: `iconv -f LATIN1 -t UTF-8`"
    if "new-line character" in str(error):
        return "a carriage return stands alone outside of quotes; end lines with LF or CR LF, or put the cell in quotes"
    return str(error)


def _require_text(first: bytes) -> None:
    for begin, what in _OTHERS.items():
        if first.startswith(begin):
            raise DataError(f"this is no CSV; it is {what}")


def _header(cells: list[str]) -> tuple[str, ...]:
    times = Counter(cells)
    for name in cells:
        if not name or times[name] > 1:
            what = f"column {name!r} is there twice" if name else "a column has no name"
            raise DataError(f"{what}; where the first line names no columns, do so with --columns")
    return tuple(cells)
