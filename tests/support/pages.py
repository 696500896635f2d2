"""Requests to the history server, and its pages as text."""

import re
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

#: Of a server with `auth: token`; the reverse proxy of one with `auth: proxy`, and its rules.
TOKEN, PROXY = "t" * 64, "10.0.0.9"
SERVED: dict[str, Any] = {"auth": "proxy", "proxies": (PROXY,), "admins": ("admin",)}


def text(client: FlaskClient, address: str, status: int = 200) -> str:
    """The answer's body; its status must be the one given."""
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    return answer.text


def words(html: str) -> str:
    """The text of a page, markup taken out."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


class Browser(FlaskClient):
    """Asks as a browser on this machine does."""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        """A request to the pages' own name, unless another is given; the answer is read to its end."""
        kwargs.setdefault("buffered", True)
        kwargs.setdefault("base_url", "http://127.0.0.1:18089")
        return super().open(*args, **kwargs)


def browser(app: Flask) -> FlaskClient:
    """For requests to an application."""
    app.testing = True
    app.test_client_class = Browser
    return app.test_client()


def by(user: str, address: str = PROXY) -> dict[str, Any]:
    """A request that a reverse proxy passes on."""
    return {"headers": {"X-Forwarded-User": user}, "environ_base": {"REMOTE_ADDR": address}}


def form(client: FlaskClient, page: str, to: str, **request: Any) -> dict[str, str]:
    """What the form of a page that posts `to` an address holds unseen."""
    hidden = rf'action="{to}">\s*<input type="hidden" name="csrf" value="([0-9a-f]{{64}})"'
    found = re.search(hidden, client.get(page, **request).text)
    assert found is not None
    return {"csrf": found[1]}
