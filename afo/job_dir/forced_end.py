"""Forced end of a job: by whom, and why; its Application Master, which would write that down, was not asked.

Kept in the job's directory before the runtime is asked, for whoever writes the verdict of such a job. Pure.
"""

import msgspec

from afo.events.types import KillRequested
from afo.formats import decoding

#: Characters of the reason that are kept, and bytes of such a file.
MOST_REASON, MOST_BYTES = 500, 8 << 10


def encode(user: str, reason: str) -> bytes:
    """The file."""
    return msgspec.json.encode(KillRequested(user=user, reason=reason[:MOST_REASON]))


def words(data: bytes, where: str) -> str:
    """A sentence of the file `where`. Raises `Malformed`."""
    asked = decoding.from_json(data, KillRequested, where)
    return f"killed by {asked.user} by force: {asked.reason[:MOST_REASON] or 'no reason given'}"
