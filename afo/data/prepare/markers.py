"""Markers (`_SUCCESS`) that say of a directory that its files are complete: looked for, and waited for."""

import time
from collections.abc import Callable

from afo import storage
from afo.errors import ClusterUnreachable, NotFound
from afo.formats.units import Duration
from afo.job import Data
from afo.storage.pattern import expand_braces, has_wildcard

#: Seconds between two looks.
POLL_S = 15.0
#: Places that are named one by one.
_NAMED = 5


def missing_markers(data: Data) -> list[str]:
    """What is not there yet: markers by URL, and globs over several directories that match no file.

    A glob's directories are those that hold files of it; a directory without wildcards is known before it is there.
    """
    missing: dict[str, None] = {}
    for pattern in (plain for glob in (*data.train, *data.eval) for plain in expand_braces(glob)):
        directory = pattern.rpartition("/")[0]
        marked = {storage.parent(marker.url) for marker in storage.glob(f"{directory}/{data.wait_for}")}
        if not has_wildcard(directory):
            missing.update({} if marked else {f"{directory}/{data.wait_for}": None})
            continue
        holding = {storage.parent(file.url) for file in storage.glob(pattern)}
        missing.update({f"{folder}/{data.wait_for}": None for folder in sorted(holding - marked)})
        if not holding:
            missing[pattern] = None
    return list(missing)


def await_markers(
    data: Data, limit: Duration, tell: Callable[[str], None],
    now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
) -> None:  # fmt: skip
    """Return once every directory holds its marker; at once if the job waits for none.

    `tell` hears what is waited for whenever that changes. Raises NotFound after `limit` with what is still missing,
    ClusterUnreachable if the files cannot be looked at now; during the wait that is no reason to give up.
    """
    if not data.wait_for:
        return
    deadline = now() + limit
    told: list[str] = []
    missing = missing_markers(data)
    while missing:
        left = deadline - now()
        if left <= 0:
            raise NotFound(
                f"$.data.wait_for: {_list_names(missing)} not there after {limit}, nothing was submitted; see why the "
                "data are late, or wait longer by `timeouts.data`"
            )
        if missing != told:
            tell(f"waiting for {_list_names(missing)}, up to {limit} in all (`timeouts.data`)")
            told = missing
        sleep(min(POLL_S, left))
        try:
            missing = missing_markers(data)
        except ClusterUnreachable as error:
            tell(f"waiting still: {error}")


def _list_names(missing: list[str]) -> str:
    more = len(missing) - _NAMED
    return ", ".join(missing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
