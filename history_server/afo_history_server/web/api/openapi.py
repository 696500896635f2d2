"""The description of `/api/v1`, made of the same types that the answers are. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from afo_history_server.web.api.types import API, Answer, ErrorAnswer

_REFERENCE = "#/components/schemas/{name}"
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"


class Parameter(Struct, frozen=True):
    """One name in the query string; `kind` is a type of JSON Schema."""

    name: str
    kind: str
    words: str


class Described(Struct, frozen=True):
    """One address; names in braces are parts of it."""

    path: str
    words: str
    answer: type[Answer]
    parameters: tuple[Parameter, ...] = ()
    method: str = "get"
    #: What a POST may hold, as a form.
    form: tuple[Parameter, ...] = ()


def document(routes: Sequence[Described]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    kinds: list[type[Answer]] = [*(route.answer for route in routes), ErrorAnswer]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    of = dict(zip(kinds, schemas, strict=True))
    return {
        "openapi": "3.1.0",
        "info": {"title": "afo history server", "version": API},
        "paths": {route.path: {route.method: _operation(route, of)} for route in routes},
        "components": {"schemas": components},
    }


def _operation(route: Described, schemas: dict[type[Answer], dict[str, Any]]) -> dict[str, Any]:
    parts = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    in_path = [{"name": part, "in": "path", "required": True, "schema": {"type": "string"}} for part in parts]
    in_query = [
        {"name": parameter.name, "in": "query", "description": parameter.words, "schema": {"type": parameter.kind}}
        for parameter in route.parameters
    ]
    fields = {parameter.name: {"type": parameter.kind, "description": parameter.words} for parameter in route.form}
    body = {"requestBody": {"content": {_FORM: {"schema": {"type": "object", "properties": fields}}}}} if fields else {}
    return body | {
        "summary": route.words,
        "parameters": [*in_path, *in_query],
        "responses": {
            "200" if route.method == "get" else "202": _answer("The requested data.", schemas[route.answer]),
            "default": _answer("Why there is no answer.", schemas[ErrorAnswer]),
        },
    }


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {_JSON: {"schema": schema}}}
