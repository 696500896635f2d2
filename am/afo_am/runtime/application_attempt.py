"""The application attempt that this process belongs to."""

import os
import re

from afo.errors import ProtocolError

_ATTEMPT = re.compile(r"container_(?:e\d+_)?\d+_\d+_(\d+)_\d+$")


def application_attempt() -> int:
    """The number that YARN gave to it, from 1; 1 outside of YARN.

    Raises `ProtocolError` for a container whose id is none of YARN's.
    """
    container_id = os.environ.get("CONTAINER_ID")
    if container_id is None:
        return 1
    match = _ATTEMPT.match(container_id)
    if match is None:
        raise ProtocolError(f"{container_id!r} is no YARN container id; the yarn runtime works inside a container only")
    return int(match.group(1))
