"""A schema out of what the first records hold: a proposal that a person should look at."""

from collections.abc import Callable, Iterable, Sequence

from afo.data.example import ListKind
from afo.data.feature import Feature, Kind
from afo.data.prepare.inspect import FeatureReport
from afo.data.schema import Schema
from afo.errors import DataError
from afo.formats.plain_text import plain
from afo.job import Data

_KIND: dict[ListKind, Kind] = {"int64": "categorical", "bytes": "string", "float": "dense"}
_LABEL_NAMES = ("label", "click", "clicked")
_SAMPLE_ID_NAMES = ("sample_id",)
#: Records from which on it says something that all hold different values, and how values are spread.
_ENOUGH, _ENOUGH_TO_SPREAD = 20, 200
#: Values as far from the median as so many times the width of all but the outermost sixteenths make a tail.
_TAIL = 4


def infer_schema(features: Iterable[FeatureReport], looked_at: int) -> tuple[Schema, list[str]]:
    """A schema for review, and notes on what a person knows better.

    Integers become categorical, byte strings string, real numbers dense; a varying number of values becomes a
    `max_length`, the highest number seen. A real number has its quantiles as `buckets`, a logarithm if its values have
    a long tail, and an indicator if records lack it. A feature named `label` or `click` that holds 0 and 1 alone, as
    integers or real numbers, becomes the label, `sample_id` the sample id. Raises DataError when no feature can be
    described.
    """
    known = {feature.name: feature for feature in features}
    label = _find_feature(known, _LABEL_NAMES, _is_label)
    sample_id = _find_feature(
        known, _SAMPLE_ID_NAMES, lambda feature: feature.kind == "int64" and feature.distinct == looked_at
    )
    described, notes = _describe_features(
        (feature for feature in known.values() if feature.name not in (label, sample_id)), looked_at
    )
    stored: dict[str, ListKind] = {label: "float"} if label and known[label].kind == "float" else {}
    return Schema(features=described, label=label, sample_id=sample_id, stored=stored), notes  # type: ignore[arg-type]


def infer_for_job(
    features: Iterable[FeatureReport], looked_at: int, data: Data, transformed: bool = True
) -> tuple[Schema, list[str]]:
    """As `infer_schema`, with label, weight and sample id as the job says. Raises DataError where one will not do.

    Unless `transformed`, real numbers stay as they are, as for a model of the user's own.
    """
    known = {feature.name: feature for feature in features}
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
    others = (feature for feature in known.values() if feature.name not in (*data.labels, data.weight, data.sample_id))
    described, notes = _describe_features(others, looked_at, transformed)
    return Schema(features=described, label=label, sample_id=data.sample_id, stored=stored), notes  # type: ignore[arg-type]


def text_of(schema: Schema, notes: Iterable[str]) -> str:
    """The schema file, notes first."""
    # A note may hold a feature's name, and that any character: it stays a line, and a comment.
    return "".join(f"# {' '.join(plain(note).split())}\n" for note in notes) + schema.to_yaml()


def _describe_features(
    features: Iterable[FeatureReport], looked_at: int, transformed: bool = True
) -> tuple[tuple[Feature, ...], list[str]]:
    described: list[Feature] = []
    notes: list[str] = []
    for feature in features:
        if not feature.max_length:
            notes.append(f"{feature.name} is left out: it held no value in the {looked_at} records that were looked at")
            continue
        is_number = feature.kind == "float" and feature.min_length == feature.max_length == 1
        described.append(_number(feature, looked_at) if transformed and is_number else _feature(feature))
        if feature.min_length != feature.max_length:
            notes.append(
                f"{feature.name} held {feature.min_length} to {feature.max_length} values: is that its `max_length`?"
            )
        if feature.kind != "float" and feature.max_length == 1 and feature.distinct == looked_at >= _ENOUGH:
            notes.append(
                f"{feature.name} held another value in every record: does it name the sample? then take it out"
            )
    if not described:
        raise DataError(f"no feature with a value in the {looked_at} records that were looked at")
    return tuple(described), notes


def _feature(feature: FeatureReport) -> Feature:
    kind = _KIND[feature.kind]
    if feature.min_length != feature.max_length:
        return Feature(name=feature.name, kind=kind, max_length=feature.max_length)
    return Feature(name=feature.name, kind=kind, shape=() if feature.max_length == 1 else (feature.max_length,))


def _number(feature: FeatureReport, looked_at: int) -> Feature:
    """A real number a record, with what helps a model to read it."""
    missing = feature.present < looked_at
    if feature.present < _ENOUGH_TO_SPREAD:
        return Feature(name=feature.name, kind="dense", missing_indicator=missing)
    return Feature(
        name=feature.name,
        kind="dense",
        buckets=feature.boundaries if len(feature.boundaries) > 1 else (),
        transform="log1p" if _has_tail(feature.quantiles) else None,
        missing_indicator=missing,
    )


def _has_tail(quantiles: Sequence[float]) -> bool:
    """Whether the outermost values are much farther from the median than nearly all others."""
    median = quantiles[len(quantiles) // 2]
    farthest = max(quantiles[-1] - median, median - quantiles[0])
    return farthest > _TAIL * (quantiles[-2] - quantiles[1]) and farthest > 1


def _find_feature(
    features: dict[str, FeatureReport], names: Iterable[str], fits: Callable[[FeatureReport], bool]
) -> str | None:
    """The first of the names that is there and fits."""
    for name in names:
        feature = features.get(name)
        if feature is not None and feature.min_length == feature.max_length == 1 and fits(feature):
            return name
    return None


def _is_label(feature: FeatureReport) -> bool:
    return feature.kind != "bytes" and feature.min in (0, 1) and feature.max in (0, 1) and feature.distinct <= 2
