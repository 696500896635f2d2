"""Scratch directory of a command, where `$TMPDIR` says: what it takes may be more than the disk of /tmp has."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from afo.errors import UsageError


@contextmanager
def scratch_folder(prefix: str) -> Iterator[str]:
    """A private directory, deleted at the end. Raises `UsageError` where none can be written as `$TMPDIR` says."""
    wanted, found = os.environ.get("TMPDIR"), tempfile.gettempdir()
    if wanted and os.path.abspath(wanted) != found:
        # Python's library takes another one then, and says nothing.
        raise UsageError(f"TMPDIR={wanted}: no file can be written there; name a directory with room, or unset it")
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield folder
