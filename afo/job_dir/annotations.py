"""Notes and tags that people give a job after its submission: `annotations.json` in its directory. Pure.

The job file is never rewritten, so the tags here stand in place of its own.
"""

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from afo.errors import UsageError
from afo.formats import decoding
from afo.formats.decoding import Malformed

#: Characters of the notes, of a tag's key and of its value; number of tags; bytes of the file.
MOST_NOTES, MOST_KEY, MOST_VALUE, MOST_TAGS = 10_000, 63, 200, 32
MOST_BYTES = 256 << 10


class Annotations(Struct, frozen=True, kw_only=True):
    """What was said of a job. `tags` None: those of its job file."""

    notes: str = ""
    tags: dict[str, str] | None = None

    def version(self) -> str:
        """Tells whether somebody else has changed them since."""
        return hashlib.sha256(encode(self)).hexdigest()[:16]


NONE = Annotations()


def encode(annotations: Annotations) -> bytes:
    """The file."""
    return msgspec.json.encode(annotations, order="deterministic")


def decode(data: bytes, where: str) -> Annotations:
    """Of the file `where`. Raises `Malformed`, also for more than anybody may write."""
    if len(data) > MOST_BYTES:
        raise Malformed(f"{where}: larger than {MOST_BYTES >> 10} KiB")
    found = decoding.from_json(data, Annotations, where)
    try:
        return check_limits(found)
    except UsageError as error:
        raise Malformed(f"{where}: {error}") from error


def check_limits(annotations: Annotations) -> Annotations:
    """The same, if it keeps to the bounds. Raises `UsageError`."""
    if len(annotations.notes) > MOST_NOTES:
        raise UsageError(f"the notes have {len(annotations.notes):,} characters; allowed are {MOST_NOTES:,}")
    tags = annotations.tags or {}
    if len(tags) > MOST_TAGS:
        raise UsageError(f"there are {len(tags)} tags; a job can have {MOST_TAGS}")
    for key, value in tags.items():
        _check_tag(key, value)
    return annotations


def _check_tag(key: str, value: str) -> None:
    if not 0 < len(key) <= MOST_KEY or "=" in key or key.endswith("-") or key != key.strip() or not key.isprintable():
        raise UsageError(
            f"tag {key[:80]!r}; allowed are 1 to {MOST_KEY} printable characters without '=', and without a blank at "
            "either end or '-' at the last"
        )
    if len(value) > MOST_VALUE or not (value.isprintable() and value == value.strip()):
        raise UsageError(
            f"tag {key!r} is {value[:80]!r}; allowed are up to {MOST_VALUE} printable characters on one line, without "
            "a blank at either end"
        )


def change_tags(tags: Mapping[str, str], changes: tuple[str, ...]) -> dict[str, str]:
    """`tags` with `KEY=VALUE` set and those of `KEY-` removed, in this order. Raises `UsageError`."""
    found = dict(tags)
    for change in changes:
        key, equals, value = change.partition("=")
        if equals:
            found[key] = value
        elif change.endswith("-") and change[:-1] in found:
            del found[change[:-1]]
        else:
            have = ", ".join(sorted(found)) or "none"
            raise UsageError(f"{change!r} is neither KEY=VALUE nor KEY- of a tag that the job has; it has {have}")
    return found
