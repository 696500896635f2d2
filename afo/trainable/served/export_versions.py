"""Versions of an exported model, as TensorFlow Serving finds them: numbered directories below one. No TensorFlow here.

    serving/ctr/1764403200/     a SavedModel; its tables are whole, or hold what changed since another version's

A version with changes needs the one that it names, and that one's; `remove_old` leaves them.
"""

import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from afo import storage
from afo.errors import DataError, NotFound
from afo.trainable.served import export_info
from afo.trainable.served.export_info import Exported

#: Leftovers of writers that were killed are removed when they are as old, in seconds.
_ABANDONED_S = 86400
_TOKEN_BYTES = 6
#: As TensorFlow Serving counts them.
MOST_NUMBER = 2**63 - 1
_HIDDEN = re.compile(rf"\.(\d{{1,18}})\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.tmp")


class Version(NamedTuple):
    """A version, and what it says of itself."""

    number: int
    url: str
    exported: Exported


def list_versions(base_path: str) -> list[Version]:
    """Old to new; none where there is no such directory. What says nothing of itself is none of ours.

    Raises DataError for one whose description is damaged.
    """
    versions = []
    for number in list_numbers(base_path):
        url = storage.join(base_path, str(number))
        try:
            versions.append(Version(number, url, export_info.read(url)))
        except NotFound:
            continue
        except DataError as error:
            raise DataError(f"{error}; remove the version {url}, or write versions to another directory") from error
    return versions


def list_numbers(base_path: str) -> list[int]:
    """What is numbered as a version is, whoever wrote it, old to new; none where there is no such directory."""
    try:
        entries = storage.list_dir(base_path)
    except NotFound:
        return []
    return sorted(int(name) for name in map(storage.name, (entry.url for entry in entries)) if is_number(name))


def is_number(name: str) -> bool:
    """Whether a directory of this name is a version."""
    return name.isascii() and name.isdigit() and name == str(int(name)) and name != "0"


def next_number(versions: Sequence[Version]) -> int:
    """Of the next version: seconds since 1970, but more than what is there: clocks of machines differ, and two may fall
    into one second. Raises DataError after the largest there is."""
    number = max(int(time.time()), versions[-1].number + 1 if versions else 1)
    if number > MOST_NUMBER:
        raise DataError(f"{versions[-1].url}: no version can come after it; remove it")
    return number


def hidden_name(number: int) -> str:
    """Of a version that is being written, by this writer alone."""
    return f".{number}.{secrets.token_hex(_TOKEN_BYTES)}.tmp"


def choose_parent(versions: Sequence[Version], bases: Collection[str], full_every: int) -> Version | None:
    """Whose changes the next version holds; None: it is whole.

    `bases`: directories of the checkpoints that the next one's stands on. A version some of whose parents is gone is
    no parent: nothing on it can be loaded. The versions since the last whole one are
    numbered from it on, 0, 1, …; the n-th has the changes since n & (n - 1), or where that one cannot be taken since
    the next one to it. So n versions lie on no more than log2(n) others as a rule, and a row that changes once is
    written log2(full_every) / 2 times on average.
    """
    sequence = _since_whole(versions)
    number = sequence[-1].exported.deltas + 1 if sequence else 0
    if not 0 < number < full_every:
        return None
    wanted = number & (number - 1)
    by_number = {version.number: version for version in versions}
    usable = [each for each in sequence if each.exported.directory in bases and not _lacks_parent(each, by_number)]
    before = [version for version in usable if version.exported.deltas <= wanted]
    return before[-1] if before else usable[0] if usable else None


def _lacks_parent(version: Version, by_number: Mapping[int, Version]) -> bool:
    """Whether one that it stands on is gone."""
    passed = {version.number}
    while (parent := version.exported.parent) is not None:
        if parent not in by_number or parent in passed:
            return True
        passed.add(parent)
        version = by_number[parent]
    return False


def remove_old(base_path: str, keep: int) -> list[int]:
    """Delete all but the newest `keep` versions and those that they need; returns the numbers of those that went."""
    versions = list_versions(base_path)
    by_number = {version.number: version for version in versions}
    needed: set[int] = set()
    for version in versions[-keep:]:
        following: int | None = version.number
        while following is not None and following in by_number and following not in needed:
            needed.add(following)
            following = by_number[following].exported.parent
    gone = [version for version in versions if version.number not in needed]
    for version in gone:
        storage.delete(version.url, recursive=True)
    for entry in storage.list_dir(base_path):
        hidden = _HIDDEN.fullmatch(storage.name(entry.url))
        if hidden and int(hidden[1]) < time.time() - _ABANDONED_S:
            storage.delete(entry.url, recursive=True)
    return [version.number for version in gone]


def _since_whole(versions: Sequence[Version]) -> Sequence[Version]:
    """The last whole version, and those with changes behind it; none where the newest one stands on none of these."""
    wholes = [place for place, version in enumerate(versions) if version.exported.parent is None]
    return versions[wholes[-1] :] if wholes else []
