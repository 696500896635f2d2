"""Description of an exported model: `assets.extra/afo.json` beside TensorFlow's own files. No TensorFlow here."""

from msgspec import Struct

from afo import storage
from afo.checkpoint.manifest import parse_name
from afo.formats import decoding
from afo.job import RowType, TableKind
from afo.job_dir.lineage import Lineage

FILE = ("assets.extra", "afo.json")


class Fill(Struct, frozen=True):
    """What stands for absent values of an input of the signature `predict`."""

    #: One for all values of a row, or as many as a row has. NaN is null in the file, for JSON has none.
    values: tuple[int | float | str | None, ...]
    #: A row may have any number of values: cut off, and filled up.
    any_length: bool = False


class Exported(Struct, frozen=True, kw_only=True):
    """Where a SavedModel comes from, and what is in it. Its checkpoint may be gone meanwhile."""

    manifest: str
    step: int
    labels: tuple[str, ...]
    #: How its embedding tables are kept; `native` and `mapped` need afo's operations in the process that serves.
    rows: RowType = "float32"
    tables: TableKind = "frozen"
    #: Those that its signature `score` reads of the user; empty: it has no such signature.
    user_features: tuple[str, ...] = ()
    #: By the name of an input of `predict`; empty in exports that did not say it yet.
    fills: dict[str, Fill] = {}
    lineage: Lineage | None = None
    #: Directory of the checkpoint, beside the manifest; since there are versions with changes.
    directory: str = ""
    #: The version whose tables these ones have the changes of; None: they are whole.
    parent: int | None = None
    #: How many versions with changes there are since the last whole one, with this one.
    deltas: int = 0
    #: When the newest gradient in it was applied, seconds since 1970.
    trained_at: float | None = None


def read(url: str) -> Exported:
    """Of the SavedModel in the directory `url`. Raises NotFound, or DataError if it is malformed or of no manifest."""
    found = decoding.read(storage.join(url, *FILE), Exported)
    parse_name(found.manifest)
    return found
