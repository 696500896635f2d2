"""A user's own folder in the jobs' directory, which several users may share: `<jobs root>/<what>-<user>`.

It lies at the top: a folder between would belong to whoever came first, and shut the others out. Nobody else may write
into it, so what it holds can be believed.
"""

import os
import secrets
from urllib.parse import quote

from afo import storage
from afo.errors import PermissionDenied
from afo.storage.url import LOCAL, parse


def user_folder(jobs_root: str, what: str, user: str) -> str:
    """Where it is, there or not."""
    return storage.join(jobs_root, f"{what}-{quote(user, safe='')}")


def make_user_folder(folder: str) -> None:
    """Make it where it is missing, for its user alone. Raises `PermissionDenied` if it is another's."""
    storage.make_dirs(folder, mode=0o700)
    # What a link leads to may change, and whose the link is cannot be told by what it leads to.
    location = parse(folder)
    if (location.scheme == LOCAL and os.path.islink(location.path)) or not _is_ours(folder):
        raise PermissionDenied(f"{folder} was made by another user; ask for its removal, or set AFO_JOBS_ROOT")


def _is_ours(folder: str) -> bool:
    """By a file of ours: what a file system calls us is its own affair (Kerberos' rules, mapped ids)."""
    probe = storage.join(folder, f".afo-probe-{secrets.token_hex(6)}")
    try:
        storage.write_bytes(probe, b"")
    except PermissionDenied:
        return False
    try:
        return storage.info(probe).owner == storage.info(folder).owner
    finally:
        storage.delete(probe)
