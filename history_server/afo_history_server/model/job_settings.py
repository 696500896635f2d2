"""The resolved job of a `job.json`, and its schema, value by value; secrets left out. Pure."""

import re
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from afo.data.schema import parse_schema
from afo.errors import SpecError
from afo.formats.decoding import Malformed, from_json
from afo.formats.units import Duration, Interval, Memory
from afo.job import Job
from afo_history_server.model.text import truncate

#: Names whose values are not shown.
_SECRET = re.compile(r"secret|passw(?:or)?d|token|credential|(?:^|[._-])?key$", re.IGNORECASE)
HIDDEN = "(not shown)"
DEFAULT, JOB_FILE = "default", "job file"
#: Characters of one value; the JSON of the job's directory has all of it.
_MAX_VALUE = 2000
#: Of a job in the list: settings, characters of a path, and of a value.
_MOST_SAID, _MAX_NAME, _MAX_CELL = 100, 100, 80
#: Bytes of a schema that are parsed while somebody waits for a page: 1.3 s, some 3,600 features.
MAX_SCHEMA = 128 << 10


class Setting(Struct, frozen=True):
    """One value of the job: its path in the job file, itself as JSON, and where it was set."""

    path: str
    value: str
    origin: str

    @property
    def is_default(self) -> bool:
        """Nobody said it."""
        return self.origin == DEFAULT


def _quantities(kind: Any, steps: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Settings that are durations or amounts of memory, which JSON has as plain numbers, and intervals."""
    if kind in (Duration, Memory, Interval):
        yield steps, kind
    elif isinstance(kind, type) and issubclass(kind, Struct):
        for name, inner in get_type_hints(kind).items():
            yield from _quantities(inner, (*steps, name))
    elif get_origin(kind) is dict:
        names, inner = get_args(kind)
        for name in get_args(names):
            yield from _quantities(inner, (*steps, name))
    else:
        for inner in get_args(kind):
            yield from _quantities(inner, steps)


_QUANTITIES = dict(_quantities(Job))


class _Inherited(Struct):
    place: str = ""


class _Source(Struct):
    tree: dict[str, Any] = {}
    variables: dict[str, str] = {}
    inherited: dict[str, _Inherited] = {}


class _Document(Struct):
    job: dict[str, Any]
    source: _Source | None = None


def settings_of(data: bytes, url: str) -> tuple[Setting, ...]:
    """In the order of the job file. Raises `Malformed` for what is no `job.json`."""
    document = from_json(data, _Document, url, what="job")
    source = document.source or _Source()
    leaves = (Setting(".".join(steps), _format_value(steps, _as_said(steps, value, source)), _origin(steps, source))
              for steps, value in _leaves(document.job, ()))  # fmt: skip
    variables = (Setting(f"--var {name}", _format_value((name,), value), "command line") for name, value in
                 source.variables.items())  # fmt: skip
    return (*leaves, *variables)


def _as_said(steps: tuple[str, ...], value: Any, source: _Source) -> Any:
    """An interval in samples or epochs beside the steps that the submission made of it."""
    if _QUANTITIES.get(steps) is not Interval:
        return value
    written: Any = source.tree
    for step in steps:
        written = written.get(step) if isinstance(written, Mapping) else None
    return value if not isinstance(written, str) or written == value else f"{written} ({value})"


def explicit_settings(data: bytes, url: str) -> dict[str, str]:
    """The settings that somebody said, by path; empty for what is no `job.json`, whose page says why."""
    try:
        found = settings_of(data, url)
    except Malformed:
        return {}
    own = (setting for setting in found if not setting.is_default and len(setting.path) <= _MAX_NAME)
    return {
        sys.intern(setting.path): sys.intern(truncate(setting.value, _MAX_CELL)) for setting in islice(own, _MOST_SAID)
    }


def schema_settings(data: bytes, url: str) -> tuple[Setting, ...]:
    """Of the schema that a job was submitted with, each feature by its name. Raises `SpecError` for none."""
    if len(data) > MAX_SCHEMA:
        raise SpecError(f"{url}: larger than {MAX_SCHEMA >> 10} KiB, and so not compared here; `afo compare` does")
    tree = {"data": {"schema": parse_schema(data, url).tree()}}
    return tuple(Setting(".".join(steps), _format_value(steps, value), JOB_FILE) for steps, value in _leaves(tree, ()))


def _leaves(value: Any, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*steps, str(key)))
    else:
        yield steps, value


def _format_value(steps: tuple[str, ...], value: Any) -> str:
    if value and isinstance(value, str | list) and _SECRET.search(steps[-1]):
        return HIDDEN
    if isinstance(value, str):
        return truncate(value, _MAX_VALUE)
    quantity = _QUANTITIES.get(steps)
    if quantity and isinstance(value, int | float):
        return str(quantity(value))
    return truncate(msgspec.json.encode(value).decode(), _MAX_VALUE)


def _origin(steps: tuple[str, ...], source: _Source) -> str:
    for end in range(len(steps), 0, -1):
        if found := source.inherited.get(".".join(steps[:end])):
            # What stands behind `--set` is the value itself, which may be one that is not shown.
            return "--set" if found.place.startswith("--set ") else found.place
    tree: Any = source.tree
    for step in steps:
        if not isinstance(tree, Mapping):
            return JOB_FILE  # written shorter than it is resolved, e.g. `instances: 3`
        if step not in tree:
            return DEFAULT
        tree = tree[step]
    return JOB_FILE
