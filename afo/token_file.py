"""The token with which a user signs in to their own history server: a file that only this user can read."""

import os
import secrets
from pathlib import Path

from afo.errors import NotFound, PermissionDenied


def make_token(path: Path) -> None:
    """A new token. Raises `PermissionDenied`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    except OSError as error:
        raise PermissionDenied(f"cannot write the token of the history server, {path}: {error.strerror}") from error


def read_token(path: Path) -> str:
    """The token. Raises `NotFound` or `PermissionDenied`."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise NotFound(f"there is no token of a history server in {path}") from error
    except (OSError, ValueError) as error:
        raise PermissionDenied(f"cannot read the token of the history server, {path}: {error}") from error
    if not text:
        raise PermissionDenied(f"the token file {path} is empty")
    return text
