"""Base of the job file's sections, and the check of their ranges."""

import functools
import math
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct, inspect

from afo.errors import SpecError
from afo.formats.type_text import describe_type

Role = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[Role, ...] = ("chief", "worker", "ps", "evaluator")

#: What YARN, Java and TensorFlow hold in 32 bits; more of anything here is a slip of the pen.
MOST_INT = 2**31 - 1
#: Width of a row: `kMaxDim` of afo/core/optimizer.h.
MOST_DIM = 4096
#: Times that a key is met, counted exactly: `kMaxFrequency` of afo/core/row_store.h.
MOST_COUNT = (1 << 24) - 1
#: The same in a counting Bloom filter: `kMaxBloomCount` of afo/core/counting_bloom.h.
MOST_BLOOM_COUNT = 255
#: Of a Bloom filter: keys that it is made for, and the least share of them that it takes for others.
MOST_KEYS, LEAST_CHANCE = 10**12, 1e-9
#: Below `kFreeStep` of afo/core/row_store.h.
MOST_STEPS = (1 << 32) - 2
PositiveInt = Annotated[int, Meta(ge=1, le=MOST_INT)]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all sections: frozen, and an unknown key is an error."""


def check_ranges(section: Struct) -> None:
    """Raises SpecError for a number that its annotation does not allow: msgspec looks only at what it decodes."""
    for name, limits in _ranges(type(section)):
        value = getattr(section, name)
        if value is not None and not (math.isfinite(value) and _holds(value, limits)):
            raise SpecError(f"{type(section).__name__}: `{name}` is {value!r}; allowed: {describe_type(limits)}")


@functools.cache
def _ranges(section: type[Struct]) -> tuple[tuple[str, inspect.IntType | inspect.FloatType], ...]:
    found = inspect.type_info(section)
    assert isinstance(found, inspect.StructType)
    return tuple((field.name, limits) for field in found.fields for limits in _numbers(field.type))


def _numbers(kind: inspect.Type) -> Iterator[inspect.IntType | inspect.FloatType]:
    match kind:
        case inspect.Metadata():
            yield from _numbers(kind.type)
        case inspect.UnionType():
            for part in kind.types:
                yield from _numbers(part)
        case inspect.IntType() | inspect.FloatType():
            yield kind


def _holds(value: float, limits: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (limits.ge is None or value >= limits.ge)
        and (limits.gt is None or value > limits.gt)
        and (limits.le is None or value <= limits.le)
        and (limits.lt is None or value < limits.lt)
    )
