"""Client of a model server's control interface: HTTP on the socket of one of this user, or on any one's REST port."""

import http.client
import os
import re
import time
import urllib.parse
from pathlib import Path

import msgspec

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, ProtocolError, UsageError
from afo.formats.decoding import UNDECODABLE, from_json
from afo.model_servers.bounded_connection import BoundedConnection
from afo.model_servers.served_state import ModelServerState, SteeredModel, shortened

#: Of an answer with its headers; a server of a thousand models with sixteen versions each says less.
_MOST_BYTES = 8 << 20
#: In such an answer; a line of a table each.
_MOST_VERSIONS = 20_000
_PIECE = 1 << 16
_ANSWER = "answer of a model server"
_MOST_TOKEN = 4096
_TOKEN = re.compile(r"[!-~]+")
_OTHERS = 0o077
_KINDS: dict[int, type[AfoError]] = {
    http.HTTPStatus.BAD_REQUEST: UsageError, http.HTTPStatus.UNAUTHORIZED: PermissionDenied,
    http.HTTPStatus.FORBIDDEN: PermissionDenied, http.HTTPStatus.NOT_FOUND: NotFound,
    http.HTTPStatus.CONFLICT: AfoError, http.HTTPStatus.SERVICE_UNAVAILABLE: ClusterUnreachable,
}  # fmt: skip


class NobodyListens(ClusterUnreachable):
    """A socket is left of a server that has ended."""


class ModelServerClient:
    """The server at `address`, a URL or the path of a socket; every error is an `AfoError` that names it."""

    def __init__(self, address: str, token: str = "") -> None:
        """Raises UsageError for an address that is none."""
        self.address, self._token = address, token
        self._place = Path(address) if address.startswith("/") else parse_address(address)

    @property
    def is_local(self) -> bool:
        """Whether it is a socket of this machine."""
        return isinstance(self._place, Path)

    def state(self, within_s: float) -> ModelServerState:
        """The server and its models."""
        answer = self._ask("GET", "/v1/models", None, within_s)
        state = from_json(answer, ModelServerState, self.address, what=_ANSWER)
        listed = sum(max(1, len(model.versions)) for model in state.models)
        if listed > _MOST_VERSIONS:
            raise ProtocolError(
                f"the model server at {self.address} lists {listed:,} versions; at most {_MOST_VERSIONS:,} are shown"
            )
        return state

    def steer(self, model: str, call: str, version: int | None, within_s: float, *, full: bool = False) -> SteeredModel:
        """Have the server `promote` or `rollback` a model, to a version or the one that it means; the model then.
        `full`: without a canary."""
        version_key: dict[str, object] = {} if version is None else {"version": version}
        body = msgspec.json.encode({**version_key, **({"full": True} if full else {})})
        path = f"/v1/models/{urllib.parse.quote(model, safe='')}:{call}"
        return from_json(self._ask("POST", path, body, within_s), SteeredModel, self.address, what=_ANSWER)

    def _ask(self, method: str, path: str, body: bytes | None, within_s: float) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        connection = BoundedConnection(self._place, time.monotonic() + within_s, _MOST_BYTES)
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as answer:
                # In pieces: a server may claim a length for which there is no room.
                text = b"".join(iter(lambda: answer.read1(_PIECE), b""))
        except ConnectionRefusedError as error:
            raise NobodyListens(f"no model server listens at {self.address}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = shortened(str(error)) or type(error).__name__
            raise ClusterUnreachable(f"the model server at {self.address} does not answer: {reason}") from error
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise _refusal(self.address, answer.status, text)
        return text


def read_client_token(file: str) -> str:
    """A token, alone in its file. Raises UsageError, NotFound, or PermissionDenied where others can read it too."""
    try:
        with open(file, "rb") as opened:
            mode, text = os.fstat(opened.fileno()).st_mode, opened.read(_MOST_TOKEN + 1)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file} with a token") from error
    except OSError as error:
        raise PermissionDenied(f"the token in {file} cannot be read: {error.strerror}") from error
    if mode & _OTHERS:
        raise PermissionDenied(f"others than you can read the token in {file}; chmod 600 {file}")
    token = text.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(token) or len(text) > _MOST_TOKEN:
        raise UsageError(f"{file} has no token; allowed: one line of printable ASCII without blanks")
    return token


def parse_address(address: str) -> urllib.parse.SplitResult:
    """The URL of a server. Raises UsageError for another one."""
    try:
        url = urllib.parse.urlsplit(address)
        port = url.port
    except ValueError as error:
        raise UsageError(f"{address} is no address of a model server: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.path.strip("/") or port == 0:
        raise UsageError(f"{address} is no address of a model server; write http://HOST:8501 or https://HOST:8501")
    return url


def _refusal(address: str, status: int, text: bytes) -> AfoError:
    try:
        words = shortened(str(msgspec.json.decode(text)["error"]))
    except (*UNDECODABLE, KeyError, TypeError):
        words = f"HTTP {status}"
    return _KINDS.get(status, ProtocolError)(f"the model server at {address} says: {words}")
