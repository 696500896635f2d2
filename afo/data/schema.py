"""The schema of a data set: the features a model may read, and the label.

A schema is a YAML file; `docs/data.md` describes it. Features that stand in the records and not in the schema are
ignored.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from afo.data.example import ListKind, Values, kind_of
from afo.data.feature import Feature, Name
from afo.errors import DataError, SpecError
from afo.formats.yaml_file import convert
from afo.formats.yaml_tree import Document, parse_yaml, read_yaml
from afo.job import Data

#: Text that needs no quotes in YAML, but for these words.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Below it a whole number is written without its `.0`.
_EXACT = 2**53
_NOT_TEXT = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, dict=True):
    """The features of a data set; `label` and `sample_id` name two int64 features that are no input of a model."""

    features: Annotated[tuple[Feature, ...], Meta(min_length=1)]
    label: Annotated[Name | None, Meta(description="Feature that holds 0 or 1.")] = None
    sample_id: Annotated[Name | None, Meta(description="Names a sample; each number should occur once.")] = None
    stored: Annotated[
        dict[str, Literal["int64", "float"]],
        Meta(description="How labels and weight are stored where labels are not int64 or the weight is not float."),
    ] = {}

    def __post_init__(self) -> None:
        self._check_names()
        self._check_weights()

    def _check_names(self) -> None:
        own, times = [name for name in (self.label, self.sample_id) if name is not None], Counter(self.names)
        for name in (*own, *times):
            if own.count(name) > 1 or (name in own and times[name]):
                raise ValueError(f"`{name}` is label or sample_id, so it can be nothing else")
            if times[name] > 1:
                raise ValueError(f"feature `{name}` is given twice; remove one")

    def _check_weights(self) -> None:
        """What `weights` names is a list of real numbers, as long as the values that it weighs."""
        known = {feature.name: feature for feature in self.features}
        for feature in self.features:
            if not feature.weights:
                continue
            other = known.get(feature.weights)
            if other is None:
                raise ValueError(
                    f"feature `{feature.name}`: weights `{feature.weights}` is not in the schema;"
                    f" {nearest(feature.weights, self.names)}"
                )
            if other.kind != "dense" or other.max_length != feature.max_length or other.weights:
                raise ValueError(
                    f"feature `{feature.name}`: weights `{other.name}` must be dense with"
                    f" max_length {feature.max_length} and without weights of its own"
                )

    @property
    def weights(self) -> frozenset[str]:
        """Features that only weigh the values of others."""
        return frozenset(feature.weights for feature in self.features if feature.weights)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, without label and sample id."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def arguments(self) -> dict[str, str]:
        """Names of the features → names in a SavedModel's signature, each once: `a b` is `a_b_2` beside an `a_b`."""
        taken = {feature.name for feature in self.features if feature.argument == feature.name}
        found = {}
        for feature in self.features:
            argument, number = feature.argument, 1
            while argument in taken and argument != feature.name:
                number += 1
                argument = f"{feature.argument}_{number}"
            taken.add(argument)
            found[feature.name] = argument
        return found

    def __getitem__(self, name: str) -> Feature:
        """The feature of this name. Raises DataError, naming the nearest one."""
        for feature in self.features:
            if feature.name == name:
                return feature
        raise DataError(f"feature `{name}` is not in the schema; {nearest(name, self.names)}")

    def stored_as(self, name: str, usual: ListKind) -> ListKind:
        """How records hold a label, a weight or a sample id; a weight may be a feature as well."""
        kinds = (feature.list_kind for feature in self.features if feature.name == name)
        return next(kinds, self.stored.get(name, usual))

    def complete(self, data: Data) -> Data:
        """A job's section `data`, with this label and sample id where it names none."""
        label = self.label if data.label is None else data.label
        return msgspec.structs.replace(data, label=label, sample_id=data.sample_id or self.sample_id)

    def to_yaml(self) -> str:
        """The schema as a file's text, a feature a line; `parse_schema` reads it back."""
        tree = msgspec.to_builtins(self)
        lines = [f"{key}: {_flow(tree[key])}" for key in ("label", "sample_id", "stored") if key in tree]
        return "\n".join([*lines, "features:", *(f"  - {_flow(feature)}" for feature in tree["features"]), ""])

    def tree(self) -> dict[str, object]:
        """Its values by key, with each feature by its name: two schemas are compared feature by feature."""
        tree: dict[str, Any] = msgspec.to_builtins(self)
        return tree | {"features": {feature.pop("name"): feature for feature in tree["features"]}}

    def validate_against(self, records: Iterable[Mapping[str, Values]], source: str) -> None:
        """Checks the first records of `source`, decoded by `afo.data.example.decode`.

        Raises DataError for a feature that none of them holds (naming the nearest one that they do), that is of
        another kind than the schema says, or of another length.
        """
        seen: set[str] = set()
        count = 0
        for count, record in enumerate(records, 1):
            seen |= record.keys()
            if wrong := self.misfit(record):
                raise DataError(f"{source}, record {count - 1}: {wrong}")
        for name in self._wanted:
            if name not in seen:
                raise DataError(
                    f"{source}: feature `{name}` of the schema is in none of the first {count} records; "
                    + nearest(name, sorted(seen))
                )

    def misfit(self, record: Mapping[str, Values]) -> str:
        """What is wrong with a decoded record: the first feature of another kind or length; empty if it fits."""
        wanted = self._wanted
        for name in wanted.keys() & record.keys():
            if wrong := _misfit(name, record[name], wanted[name]):
                return wrong
        return ""

    @cached_property
    def _wanted(self) -> dict[str, tuple[ListKind, int | None]]:
        """Kind and number of values of each feature, label and sample id; None: any number."""
        wanted: dict[str, tuple[ListKind, int | None]] = {
            feature.name: (feature.list_kind, None if feature.max_length else feature.size) for feature in self.features
        }
        outputs = (name for name in (self.label, self.sample_id) if name is not None)
        return wanted | {name: (self.stored.get(name, "int64"), 1) for name in outputs}


def read_schema(path: str | Path, data: Data | None = None) -> Schema:
    """The schema in a local file. Raises NotFound, or what `parse_schema` raises."""
    return _schema_of(read_yaml(path), data)


def parse_schema(text: str | bytes, source: str, data: Data | None = None) -> Schema:
    """The schema in a text that errors call `source`. Raises SpecError with its line.

    With the `data` of a model's job, also for a label, or sample id, that is a feature, which a model must not see, and
    for a weight that is one of several values, or text.
    """
    return _schema_of(parse_yaml(text, source), data)


def _schema_of(document: Document, data: Data | None) -> Schema:
    if document.value is None:
        raise SpecError(
            f"{document.name}: $: the schema says nothing; write its `features`, or leave `data.schema` out to have one"
            " inferred from the first records"
        )
    schema = convert(document, Schema)
    if data is not None:
        _check_outputs(schema, data)
    return schema


def _check_outputs(schema: Schema, data: Data) -> None:
    for field, name in [*(("label", label) for label in data.labels), ("sample_id", data.sample_id)]:
        if name in schema.names:
            raise SpecError(
                f"$.data.{field}: `{name}` is a feature of the schema, and a model must not see it; take it out"
            )
    for feature in schema.features:
        if feature.name == data.weight and (feature.kind == "string" or feature.max_length or feature.size > 1):
            raise SpecError(
                f"$.data.weight: `{feature.name}` is a feature of the schema that is not one number; a weight is, in"
                " every record"
            )


def _flow(value: object) -> str:
    """A value on one line, in the common part of all versions of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return msgspec.json.encode(value).decode()


def nearest(name: str, names: Iterable[str]) -> str:
    """What to say of a name that is none of `names`: the one that is meant, or all."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean `{near[0]}`?"
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return f"there are: {shown}" if known else "there are none"


def _misfit(name: str, values: Values, wanted: tuple[ListKind, int | None]) -> str:
    kind, size = wanted
    found = kind_of(values)
    if found != kind and len(values):
        return f"feature `{name}` holds {found} values where the schema needs {kind}"
    if size is not None and not len(values):
        return f"feature `{name}` is there without a value: leave it out of such records, or give it a `max_length`"
    if size is not None and len(values) != size:
        return (
            f"feature `{name}` holds {len(values)} values where the schema's shape needs {size};"
            " give it a `max_length` if their number varies, or make the records anew by this schema, if they were"
            " split for another one (`afo data convert`)"
        )
    return ""
