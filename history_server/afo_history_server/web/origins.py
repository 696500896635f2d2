"""Under which names a browser reaches this server: its own pages under one, TensorBoard under another.

TensorBoard shows what a job wrote, with scripts and plugins of its own. Under another name it is another origin: what
runs there can neither read the pages and answers of this server nor act in the name of who looks at them.
"""

from urllib.parse import quote

from flask import Flask, Request, current_app, request
from msgspec import Struct

#: On the machine itself.
PAGES_HOST = "127.0.0.1"
TENSORBOARD_HOST = "localhost"
_NAMES = "afo_names"


class Names(Struct, frozen=True):
    """The two names of a server. Without one for TensorBoard there is none."""

    pages: str = PAGES_HOST
    tensorboard: str = TENSORBOARD_HOST


def use_names(app: Flask, names: Names) -> None:
    """`app` is reached under these."""
    app.extensions[_NAMES] = names


def names() -> Names:
    """Those of the present application."""
    found: Names = current_app.extensions[_NAMES]
    return found


class Origin(Struct, frozen=True):
    """Name and port of a request, as the browser sees them; any port, for `ssh -L`."""

    host: str
    #: With its colon; '' where the scheme says it.
    port: str

    @classmethod
    def of_request(cls) -> "Origin":
        """That of the present request."""
        text = request.headers.get("Host", "").lower()
        name, colon, port = text.rpartition(":")
        if name and port.isascii() and port.isdigit():
            return cls(name, colon + port)
        return cls(text, "")

    def elsewhere(self, host: str) -> str:
        """The same server under another name, without a slash at the end.

        Without a scheme: the browser keeps its own, which a reverse proxy may hide from this server.
        """
        return f"//{host}{self.port}"


def target(request: Request) -> str:
    """Path and query of a request as they go into another one, or into a header: nothing in them ends a line."""
    path = quote(request.path, safe="/:@!$&'()*+,;=~-._")
    query = request.query_string.decode("ascii", "replace")
    return f"{path}?{query}" if query else path
