"""Passes a request on to a server on this machine and its answer back, piece by piece."""

import http.client
from collections.abc import Iterator

from flask import Request, Response

from afo_history_server.web.origins import target

#: Headers that go on. What else a browser sends, cookies and credentials above all, is none of that server's affair.
_REQUEST = ("Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "If-Modified-Since", "If-None-Match",
            "Range", "X-XSRF-Protected", "User-Agent")  # fmt: skip
#: Headers that do not come back: they belong to one connection, or would act on this server's own origin.
_ANSWER = frozenset({"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
                     "transfer-encoding", "upgrade", "set-cookie", "server", "date"})  # fmt: skip
_TIMEOUT_S = 60.0
_CHUNK = 64 << 10


def forward(request: Request, port: int) -> Response:
    """The answer of 127.0.0.1:`port`, where the path is the same. Redirects are passed back, never followed.

    Raises `ConnectionError` and `OSError` where it does not answer.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        headers = {name: request.headers[name] for name in _REQUEST if name in request.headers}
        connection.request(request.method, target(request), body=request.get_data() or None, headers=headers)
        answer = connection.getresponse()
    except http.client.HTTPException as error:
        connection.close()
        raise ConnectionError(f"127.0.0.1:{port} gave no answer: {error!r}") from error
    except OSError:
        connection.close()
        raise
    response = Response(_pieces(answer), answer.status)
    response.headers.clear()
    for name, value in answer.getheaders():
        if name.lower() not in _ANSWER:
            response.headers.add(name, value)
    response.call_on_close(answer.close)
    response.call_on_close(connection.close)
    return response


def _pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while data := answer.read1(_CHUNK):
        yield data
