"""Requests to the history server, and its pages as text."""

import re
from typing import Any

from flask import Flask
from flask.testing import FlaskClient


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
