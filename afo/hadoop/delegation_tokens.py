"""Delegation tokens in the file that YARN gives a container, named by `$HADOOP_TOKEN_FILE_LOCATION`.

Format: Hadoop's `Credentials.writeTokenStorageToStream`: "HDTS", a version, tokens, secrets. Version 0 is read, of
Writables, which NodeManagers write; hdfs-native reads version 1, of protobuf, too. Secrets are not kept: they are of
MapReduce.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import NamedTuple

from afo.errors import ProtocolError, StorageError

LOCATION = "HADOOP_TOKEN_FILE_LOCATION"
HDFS, RESOURCE_MANAGER = "HDFS_DELEGATION_TOKEN", "RM_DELEGATION_TOKEN"
_MAGIC, _WRITABLES = b"HDTS", 0


class Token(NamedTuple):
    """One of them. `service` is what it is for: `ip:port`, `host:port` or a logical name."""

    identifier: bytes
    password: bytes
    kind: str
    service: str

    @property
    def url_text(self) -> str:
        """What REST interfaces take. It is a secret."""
        return base64.urlsafe_b64encode(self.encoded).rstrip(b"=").decode()

    @property
    def encoded(self) -> bytes:
        """As a Writable of Hadoop's."""
        fields = (self.identifier, self.password, self.kind.encode(), self.service.encode())
        return b"".join(_vint(len(field)) + field for field in fields)


def load_tokens() -> tuple[Token, ...]:
    """Those of this process; none where no file is named, or one that hdfs-native alone understands.

    Raises StorageError for a file that cannot be read or is cut off.
    """
    path = os.environ.get(LOCATION)
    if not path:
        return ()
    try:
        return parse(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read the delegation tokens in ${LOCATION}, {path}: {error}") from error


def parse(content: bytes) -> tuple[Token, ...]:
    """The tokens of a file. Raises ValueError for what is no such file."""
    if content[:4] != _MAGIC:
        raise ValueError(f"it begins with {content[:4]!r} instead of {_MAGIC!r}")
    if content[4:5] != bytes([_WRITABLES]):
        return ()
    reader = _Reader(content, 5)
    return tuple(reader.token() for _ in range(reader.vint()))


def encode(tokens: tuple[Token, ...]) -> bytes:
    """A file of them, each under its service."""
    names = ((token, token.service.encode()) for token in tokens)
    entries = (_vint(len(name)) + name + token.encoded for token, name in names)
    return b"".join((_MAGIC, bytes([_WRITABLES]), _vint(len(tokens)), *entries, _vint(0)))


def of_url_text(text: str) -> Token:
    """What a REST interface gives. Raises ProtocolError for what is none."""
    try:
        return _Reader(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), 0).token_fields()
    except ValueError as error:
        raise ProtocolError(f"this is no delegation token: {error}") from error


def last_day(token: Token) -> float:
    """Seconds since 1970 after which nobody can renew it. Raises ProtocolError.

    The identifier is that of Hadoop's AbstractDelegationTokenIdentifier: version, owner, renewer, real user, when it
    was made, and this, in milliseconds.
    """
    try:
        reader = _Reader(token.identifier, 1)
        for _ in ("owner", "renewer", "real user"):
            reader.field()
        reader.vint()
        return reader.vint() / 1000
    except ValueError as error:
        raise ProtocolError(
            f"the identifier of a delegation token for {token.service} is not understood: {error}"
        ) from error


def replace(content: bytes) -> None:
    """Put a file of tokens where this process and those of its container look. Raises StorageError."""
    path = Path(os.environ[LOCATION])
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"cannot replace the delegation tokens in {path}: {error}") from error


class _Reader:
    def __init__(self, content: bytes, at: int) -> None:
        self._content, self._at = content, at

    def token(self) -> Token:
        self.field()  # the name under which it was put there
        return self.token_fields()

    def token_fields(self) -> Token:
        identifier, password = self.field(), self.field()
        return Token(identifier, password, self.field().decode(), self.field().decode())

    def field(self) -> bytes:
        return self._take(self.vint())

    def vint(self) -> int:
        """Hadoop's WritableUtils.readVInt: small numbers are a byte, others follow a byte that tells their length."""
        first = int.from_bytes(self._take(1), signed=True)
        if first >= -112:
            return first
        if first < -120:
            raise ValueError(f"a negative length, before byte {self._at}")
        return int.from_bytes(self._take(-112 - first))

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._content) - self._at:
            raise ValueError(f"it ends at byte {len(self._content)}, {size} bytes are to follow byte {self._at}")
        self._at += size
        return self._content[self._at - size : self._at]


def _vint(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size)
