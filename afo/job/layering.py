"""A job file above files of defaults: mappings are merged key by key, and of everything else the upper one holds.

This is JSON Merge Patch (RFC 7396), so `null` takes away what the defaults say, with one exception: a mapping that
names one of several kinds (`optimizer.deep`) is a choice, and replaces the one below as a whole.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from afo.errors import SpecError
from afo.formats.yaml_tree import Document, Steps, Value, read_yaml

KEY = "defaults"
_CHOICES: frozenset[Steps] = frozenset({("optimizer", "wide"), ("optimizer", "deep")})


class Inherited(Struct, frozen=True):
    """Where a value that the job file itself does not say was written; relative paths are relative to `folder`."""

    place: str
    folder: str


@dataclass(frozen=True)
class Layer:
    """A tree and where its parts are from: from `folder`, but for what is at or below a key of `inherited`.

    The keys are steps joined by dots, e.g. `environment.python`.
    """

    document: Document
    folder: str
    inherited: dict[str, Inherited] = field(default_factory=dict)

    def origin(self, steps: Steps) -> Inherited:
        """Where the value at `steps` is from."""
        for end in range(len(steps), 0, -1):
            if found := self.inherited.get(join_steps(steps[:end])):
                return found
        return Inherited(self.document.place(steps), self.folder)

    def inherits(self, steps: Steps) -> bool:
        """Whether the value at `steps` is from a file of defaults."""
        return any(join_steps(steps[:end]) in self.inherited for end in range(len(steps), 0, -1))

    def replace_value(self, steps: Steps, document: Document) -> "Layer":
        """With `document`, in which the value at `steps` is another one, as if the job file had said it."""
        key = join_steps(steps)
        kept = {at: origin for at, origin in self.inherited.items() if not f"{at}.".startswith(f"{key}.")}
        return Layer(document, self.folder, {**kept, key: Inherited(document.place(steps), self.folder)})


def join_steps(steps: Steps) -> str:
    """`data.train.0`."""
    return ".".join(map(str, steps))


def with_defaults(document: Document, folder: str, below: Layer | None = None) -> Layer:
    """The document above the chain of files that its key `defaults` begins, above `below`.

    Raises `NotFound` for a file that is not there, `SpecError` for a circle, naming the place of the key.
    """
    layers = [Layer(document, folder)]
    seen = {os.path.realpath(document.name)}
    while path := _next(layers[-1]):
        if os.path.realpath(path) in seen:
            names = " → ".join([*(layer.document.name for layer in layers), str(path)])
            raise SpecError(f"{_place(layers[-1])}: $.{KEY}: {path} is included already: {names}; break the circle")
        seen.add(os.path.realpath(path))
        layers.append(Layer(read_yaml(path), str(path.parent)))
        if not isinstance(layers[-1].document.value, dict):
            raise SpecError(f"{path}: $: a file of defaults has the keys of a job file; write `key: value`")
    merged = below
    for layer in reversed(layers):
        merged = _overlay(layer, merged) if merged else layer
    return merged or layers[0]


def _next(layer: Layer) -> Path | None:
    tree = layer.document.value
    path = tree.get(KEY) if isinstance(tree, dict) else None
    if path is None:
        return None
    if not isinstance(path, str) or not path or "://" in path:
        raise SpecError(f"{_place(layer)}: $.{KEY}: {path!r} does not fit; allowed: the path of a file on this machine")
    return Path(os.path.normpath(os.path.join(layer.folder, os.path.expanduser(path))))


def _place(layer: Layer) -> str:
    return layer.document.place((KEY,))


def _overlay(upper: Layer, lower: Layer) -> Layer:
    inherited: dict[str, Inherited] = {}
    value = _merge(upper.document.value, lower.document.value, (), inherited, lower)
    places = {**lower.document.places, **upper.document.places}
    return Layer(Document(upper.document.name, value, places), upper.folder, inherited)


def _merge(upper: Value, below: Value, steps: Steps, inherited: dict[str, Inherited], lower: Layer) -> Value:
    if not isinstance(upper, dict) or not isinstance(below, dict) or steps in _CHOICES:
        return upper
    result: dict[str, Value] = {}
    for key, value in upper.items():
        if value is not None:
            result[key] = _merge(value, below.get(key, {}), (*steps, key), inherited, lower)
    for key, value in below.items():
        if key not in upper and (steps or key != KEY):
            result[key] = value
            inherited.update(_origins((*steps, key), lower))
    return result


def _origins(steps: Steps, lower: Layer) -> Iterator[tuple[str, Inherited]]:
    key = join_steps(steps)
    yield key, lower.origin(steps)
    yield from ((at, origin) for at, origin in lower.inherited.items() if at.startswith(f"{key}."))
