"""Text of what a msgspec type allows; for error messages and for the reference of the job file."""

import msgspec
from msgspec import inspect

from afo.formats.units import Duration, Interval, Memory

#: Bounds of numbers that the engine and TensorFlow hold in float32, with room for what is made of them.
LEAST_FLOAT, MOST_FLOAT = 1e-30, 1e30
_CUSTOM = {
    Memory: "memory, e.g. 8 GiB, 512m or 8192 (MiB)", Duration: "duration, e.g. 10m, 1h30m or 90s",
    Interval: "duration with its unit, or e.g. 2000 steps, 500000 samples or 0.5 epochs",
}  # fmt: skip


def bare(kind: inspect.Type) -> inspect.Type:
    """The type without its documentation."""
    return bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def description(kind: inspect.Type) -> str:
    """The documentation of a field's type, '' where there is none."""
    if not isinstance(kind, inspect.Metadata):
        return ""
    return str((kind.extra_json_schema or {}).get("description", "")) or description(kind.type)


def describe_type(kind: inspect.Type) -> str:
    """What may be written for a value of this type."""
    kind = bare(kind)
    match kind:
        case inspect.CustomType():
            return _CUSTOM.get(kind.cls, kind.cls.__name__)
        case inspect.LiteralType():
            return alternatives(sorted(str(value) or "''" for value in kind.values))
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.IntType():
            return "whole number" + _bounds(kind.ge, kind.gt, kind.le, kind.lt)
        case inspect.FloatType():
            return "number" + _bounds(kind.ge, kind.gt, kind.le, kind.lt)
        case inspect.StrType():
            return "text" + _lengths(kind.min_length, kind.max_length, "character")
        case _:
            return _allowed_collection(kind)


def _allowed_collection(kind: inspect.Type) -> str:
    match kind:
        case inspect.UnionType():
            return alternatives([describe_type(part) for part in kind.types])
        case inspect.ListType() | inspect.VarTupleType():
            item = f"list of {describe_type(kind.item_type)}"
            return item + _lengths(kind.min_length, kind.max_length, "item")
        case inspect.DictType():
            return f"mapping of {describe_type(kind.key_type)} to {describe_type(kind.value_type)}"
        case inspect.StructType():
            return "mapping with " + ", ".join(member.encode_name for member in kind.fields)
        case _:
            return type(kind).__name__.removesuffix("Type").lower()


def alternatives(words: list[str]) -> str:
    """`a, b or c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _bounds(ge: float | None, gt: float | None, le: float | None, lt: float | None) -> str:
    # float32 is meant by the widest bounds, and everybody expects it.
    if ge == LEAST_FLOAT:
        ge, gt = None, 0
    if le == MOST_FLOAT:
        le = None
    parts = [
        f"{sign} {_format_bound(bound)}"
        for sign, bound in ((">=", ge), (">", gt), ("<=", le), ("<", lt))
        if bound is not None
    ]
    return f" {' and '.join(parts)}" if parts else ""


def _lengths(least: int | None, most: int | None, unit: str) -> str:
    parts = [f"at least {least}" if least else "", f"at most {most}" if most is not None else ""]
    text = " and ".join(part for part in parts if part)
    plural = "" if text.endswith(" 1") else "s"
    return f" ({text} {unit}{plural})" if text else ""


def type_at(kind: inspect.Type, steps: tuple[str | int, ...]) -> inspect.Type | None:
    """The type of the value at `steps`, or None when the type has no such place."""
    kind = bare(kind)
    if not steps:
        return kind
    step, rest = steps[0], steps[1:]
    match kind:
        case inspect.UnionType():
            found = (type_at(part, steps) for part in kind.types)
            return next((part for part in found if part is not None), None)
        case inspect.StructType():
            return next((type_at(member.type, rest) for member in kind.fields if member.encode_name == step), None)
        case inspect.DictType():
            return type_at(kind.value_type, rest)
        case inspect.ListType() | inspect.VarTupleType():
            return type_at(kind.item_type, rest)
        case _:
            return None


def type_info(kind: type) -> inspect.Type:
    """msgspec's description of a type."""
    return msgspec.inspect.type_info(kind)


def _format_bound(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
