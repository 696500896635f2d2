"""Client of a history server's REST interface."""

import http
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, ProtocolError, UsageError
from afo.formats.decoding import UNDECODABLE

#: For a list, which may take a first look at many jobs; and for any answer at all, without which no list is asked for.
_TIMEOUT_S, ANSWER_S = 60.0, 10.0
_KINDS: dict[int, type[AfoError]] = {
    http.HTTPStatus.BAD_REQUEST: UsageError, http.HTTPStatus.UNAUTHORIZED: PermissionDenied,
    http.HTTPStatus.FORBIDDEN: PermissionDenied, http.HTTPStatus.NOT_FOUND: NotFound,
    http.HTTPStatus.SERVICE_UNAVAILABLE: ClusterUnreachable,
}  # fmt: skip


class ListedJob(Struct, frozen=True):
    """A line of the list, as far as the client shows it."""

    job_id: str
    name: str = ""
    user: str = ""
    state: str = ""
    cause: str = ""
    started: float = 0.0
    submitted: float = 0.0
    seconds: float | None = None
    core_hours: float | None = None


class JobsPage(Struct, frozen=True):
    """`total` jobs were asked for; `problem` says why the list is old; the directory of jobs may be `missing`."""

    jobs: tuple[ListedJob, ...]
    total: int
    problem: str = ""
    missing: bool = False
    columns: tuple[str, ...] = ()
    #: Of each job its values in these columns.
    cells: tuple[tuple[float | str | None, ...], ...] = ()


class HistoryApi:
    """The server at `address`. `token`: of this user's own server, else ''."""

    def __init__(self, address: str, token: str = "") -> None:
        self._address, self._token = address.rstrip("/"), token
        # One's own server is on this machine; another may well lie behind a proxy.
        handlers = (urllib.request.ProxyHandler({}),) if token else ()
        self._open = urllib.request.build_opener(*handlers).open

    def check_answers(self, within_s: float = ANSWER_S) -> None:
        """Raises `ClusterUnreachable` if it takes longer; whatever it says will do."""
        try:
            self._open(self._address + "/api/v1/openapi.json", timeout=within_s).close()
        except urllib.error.HTTPError as error:
            error.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silent(error) from error

    def jobs(self, asked: Mapping[str, object]) -> tuple[bytes, JobsPage]:
        """The answer as it came, and what it says. Raises `AfoError` with the server's words."""
        self.check_answers()
        query = {name: value for name, value in asked.items() if value not in (None, "", ())}
        body = self._get(f"/api/v1/jobs?{urllib.parse.urlencode(query, doseq=True)}")
        try:
            return body, msgspec.json.decode(body, type=JobsPage)
        except UNDECODABLE as error:
            raise ProtocolError(f"{self._address} answers, but not as a history server does: {error}") from error

    def _get(self, path: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            request = urllib.request.Request(self._address + path, headers=headers)
            with self._open(request, timeout=_TIMEOUT_S) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise _translate_error(self._address, error) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> ClusterUnreachable:
        reason = getattr(error, "reason", error)
        return ClusterUnreachable(f"the history server at {self._address} does not answer: {reason}")


def _translate_error(address: str, error: urllib.error.HTTPError) -> AfoError:
    try:
        words = str(msgspec.json.decode(error.read())["error"]["message"])
    except (*UNDECODABLE, KeyError, TypeError):
        words = f"HTTP {error.code} {error.reason}"
    return _KINDS.get(error.code, ProtocolError)(f"the history server at {address} says: {words}")
