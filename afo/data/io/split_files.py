"""Files of a data set: what its globs match, in the order that gives each split its number."""

from collections.abc import Iterable

import msgspec

from afo import storage
from afo.errors import DataError, NotFound
from afo.storage.url import ByteRange


class SplitFile(msgspec.Struct, frozen=True):
    """One file of a data set, or a `part` of it; `size` of the file in bytes, `modified` in seconds since 1970."""

    url: str
    size: int
    modified: float = 0.0
    part: ByteRange | None = None


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
