"""Under which names a browser reaches this server: its own pages under one, TensorBoard under another.

TensorBoard shows what a job wrote, with scripts and plugins of its own. Under another name it is another origin: what
runs there can neither read the pages and answers of this server nor act in the name of who looks at them.
"""

from flask import request
from msgspec import Struct

PAGES_HOST = "127.0.0.1"
TENSORBOARD_HOST = "localhost"


class Origin(Struct, frozen=True):
    """Scheme, name and port of a request, as the browser sees them; any port, for `ssh -L`."""

    scheme: str
    host: str
    #: With its colon; '' where the scheme says it.
    port: str

    @classmethod
    def of_request(cls) -> "Origin":
        """That of the present request."""
        text = request.headers.get("Host", "").lower()
        name, colon, port = text.rpartition(":")
        if name and port.isascii() and port.isdigit():
            return cls(request.scheme, name, colon + port)
        return cls(request.scheme, text, "")

    def elsewhere(self, host: str) -> str:
        """The same server under another name, without a slash at the end."""
        return f"{self.scheme}://{host}{self.port}"
