"""A schema out of what the first records hold: a proposal that a person should look at."""

from collections.abc import Callable, Iterable

from afo.data.example import ListKind
from afo.data.inspect import FeatureReport
from afo.data.schema import Feature, Kind, Schema
from afo.errors import DataError
from afo.job import Data
from afo.plain_text import plain

_KIND: dict[ListKind, Kind] = {"int64": "categorical", "bytes": "string", "float": "dense"}
_LABEL_NAMES = ("label", "click", "clicked")
_SAMPLE_ID_NAMES = ("sample_id",)
#: Records from which on it says something that all hold different values.
_ENOUGH = 20


def infer_schema(features: Iterable[FeatureReport], looked_at: int) -> tuple[Schema, list[str]]:
    """A schema for review, and notes on what a person knows better.

    Integers become categorical, byte strings string, real numbers dense; a varying number of values becomes a
    `max_length`, the highest number seen. A feature named `label` or `click` that holds 0 and 1 alone, as integers or
    real numbers, becomes the label, `sample_id` the sample id. Raises DataError when no feature can be described.
    """
    known = {each.name: each for each in features}
    label = _named(known, _LABEL_NAMES, _is_label)
    sample_id = _named(known, _SAMPLE_ID_NAMES, lambda each: each.kind == "int64" and each.distinct == looked_at)
    described, notes = _described((each for each in known.values() if each.name not in (label, sample_id)), looked_at)
    stored: dict[str, ListKind] = {label: "float"} if label and known[label].kind == "float" else {}
    return Schema(features=described, label=label, sample_id=sample_id, stored=stored), notes  # type: ignore[arg-type]


def infer_for_job(features: Iterable[FeatureReport], looked_at: int, data: Data) -> tuple[Schema, list[str]]:
    """As `infer_schema`, with label, weight and sample id as the job says. Raises DataError where one will not do."""
    known = {each.name: each for each in features}
    outputs = {f"$.data.label: `{name}`": name for name in data.labels}
    outputs |= {"$.data.weight": data.weight} if data.weight else {}
    stored: dict[str, ListKind] = {}
    for place, name in outputs.items():
        if name in known:
            kind = known[name].kind
            if kind == "bytes":
                raise DataError(f"{place} holds byte strings in the records, and has to be a number")
            if kind != ("float" if name == data.weight else "int64"):
                stored[name] = kind
    label = data.labels[0] if len(data.labels) == 1 and data.labels[0] not in stored else None
    others = (each for each in known.values() if each.name not in (*data.labels, data.weight, data.sample_id))
    described, notes = _described(others, looked_at)
    return Schema(features=described, label=label, sample_id=data.sample_id, stored=stored), notes  # type: ignore[arg-type]


def text_of(schema: Schema, notes: Iterable[str]) -> str:
    """The schema file, notes first."""
    # A note may hold a feature's name, and that any character: it stays a line, and a comment.
    return "".join(f"# {' '.join(plain(note).split())}\n" for note in notes) + schema.to_yaml()


def _described(features: Iterable[FeatureReport], looked_at: int) -> tuple[tuple[Feature, ...], list[str]]:
    described: list[Feature] = []
    notes: list[str] = []
    for each in features:
        if not each.max_length:
            notes.append(f"{each.name} is left out: it held no value in the {looked_at} records that were looked at")
            continue
        described.append(_feature(each))
        if each.min_length != each.max_length:
            notes.append(f"{each.name} held {each.min_length} to {each.max_length} values: is that its `max_length`?")
        if each.kind != "float" and each.max_length == 1 and each.distinct == looked_at >= _ENOUGH:
            notes.append(f"{each.name} held another value in every record: does it name the sample? then take it out")
    if not described:
        raise DataError(f"no feature with a value in the {looked_at} records that were looked at")
    return tuple(described), notes


def _feature(each: FeatureReport) -> Feature:
    kind = _KIND[each.kind]
    if each.min_length != each.max_length:
        return Feature(name=each.name, kind=kind, max_length=each.max_length)
    return Feature(name=each.name, kind=kind, shape=() if each.max_length == 1 else (each.max_length,))


def _named(
    features: dict[str, FeatureReport], names: Iterable[str], fits: Callable[[FeatureReport], bool]
) -> str | None:
    for name, each in features.items():
        if name in names and each.min_length == each.max_length == 1 and fits(each):
            return name
    return None


def _is_label(each: FeatureReport) -> bool:
    return each.kind != "bytes" and each.min in (0, 1) and each.max in (0, 1) and each.distinct <= 2
