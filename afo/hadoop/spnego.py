"""HTTP with servers of Hadoop's that demand Kerberos, as a handler of urllib's: by delegation token, else by ticket."""

import base64
import os
import urllib.request
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

from afo.hadoop import delegation_tokens, kerberos

#: Of Hadoop's DelegationTokenAuthenticator; a web server takes the same tokens as its service.
_TOKEN = "X-Hadoop-Delegation-Token"
_TICKET = "Authorization"


class Negotiation(urllib.request.BaseHandler):
    """Answers a 401 that names `Negotiate`, once a request.

    `kind` is of the delegation tokens that the server takes. A container has such a token, and a ticket only if it was
    given a keytab; a client has a ticket. Requests raise PermissionDenied for somebody who has neither.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def http_error_401(
        self, request: urllib.request.Request, _body: IO[bytes], _code: int, _words: str, headers: Message
    ) -> Any:
        """The answer to the request with a proof; None leaves the error as it is."""
        offered = {challenge.partition(" ")[0].lower() for challenge in headers.get_all("WWW-Authenticate", [])}
        if "negotiate" not in offered or request.has_header(_TICKET) or request.has_header(_TOKEN.capitalize()):
            return None
        request.add_unredirected_header(*self._proof(urlsplit(request.full_url).hostname or ""))
        return self.parent.open(request, timeout=request.timeout)

    def _proof(self, host: str) -> tuple[str, str]:
        token = next((token for token in delegation_tokens.load_tokens() if token.kind == self._kind), None)
        if token is not None and kerberos.KEYTAB not in os.environ:
            return _TOKEN, token.url_text
        return _TICKET, f"Negotiate {base64.b64encode(kerberos.negotiate(host)).decode()}"
