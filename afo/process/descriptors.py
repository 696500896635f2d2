"""File descriptors: how many this process may have, and what is left of them for its own files."""

import logging
import resource

#: More is of no use, and programs that close every number that they might have open would take minutes: containers of
#: Docker are often allowed a thousand million.
MOST = 65_536

#: Kept for files, logs, HDFS, and calls of our own, however many strangers connect.
RESERVED = 512
#: A server lets in at least so many, however few descriptors there are.
_LEAST = 64

_log = logging.getLogger(__name__)


def raise_limit() -> None:
    """Let this process, and what it starts from now on, have as many as the hard limit says, `MOST` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(_number(hard), MOST)
    if _number(soft) >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:  # a hard limit above what the kernel has come to allow anybody
        _log.warning("at most %d files can be open, as the limit cannot be raised to %d: %s", soft, wanted, error)


def for_connections() -> int:
    """How many of this process's descriptors connections to a server of it may take."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_LEAST, _number(soft) - RESERVED)


def _number(limit: int) -> int:
    return MOST if limit == resource.RLIM_INFINITY else limit
