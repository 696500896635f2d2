"""File descriptors: how many this process may have, and what is left of them for its own files."""

import resource

#: Kept for files, logs, HDFS, and calls of our own, however many strangers connect.
RESERVED = 512
#: A server lets in at least so many, however few descriptors there are.
_LEAST = 64


def raise_limit() -> int:
    """Take as many as the system lets this process have; returns how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def for_connections() -> int:
    """How many of this process's descriptors connections to a server of it may take."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_LEAST, soft - RESERVED)
