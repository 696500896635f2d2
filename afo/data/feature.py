"""A feature of a schema: how records hold it, and how a model of ours reads it."""

import keyword
import re
from collections.abc import Iterable
from itertools import pairwise
from math import nan, prod
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from afo.data.example import ListKind

Kind = Literal["categorical", "string", "dense"]
Combiner = Literal["mean", "sum", "sqrtn"]
Scalar = int | float | str

#: How a `tf.Example` holds a feature of each kind.
LIST_KIND: dict[Kind, ListKind] = {"categorical": "int64", "string": "bytes", "dense": "float"}
_DEFAULT: dict[Kind, Scalar] = {"categorical": 0, "string": "", "dense": 0.0}
_PYTHON_TYPE: dict[Kind, tuple[type, ...]] = {"categorical": (int,), "string": (str,), "dense": (int, float)}
#: Longest list of values that a feature may have.
MAX_LENGTH = 100_000
Name = Annotated[str, Meta(min_length=1, description="As in the records.")]


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One feature. The fields after `default` say how a model turns it into table rows."""

    name: Name
    kind: Annotated[Kind, Meta(description="`categorical`: integer id; `string`: raw text; `dense`: real number.")]
    shape: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="Lengths of its axes; `[]` is one value.")
    ] = ()
    default: Annotated[
        Scalar | tuple[Scalar, ...] | None,
        Meta(description="Taken where a record lacks it: one value for all, or as many as the shape holds."),
    ] = None
    buckets: Annotated[
        tuple[float, ...], Meta(description="Ascending boundaries; the wide part sees a dense value as its interval.")
    ] = ()
    clip: Annotated[
        tuple[float, float] | None, Meta(description="Lowest and highest dense value; those beyond are moved there.")
    ] = None
    transform: Annotated[
        Literal["log1p"] | None, Meta(description="Of a dense value v: `log1p`, the sign of v times log(1 + |v|).")
    ] = None
    missing_indicator: Annotated[
        bool, Meta(description="The model also sees whether a dense value is there; NaN is a missing one.")
    ] = False
    vocab: Annotated[
        tuple[int | str, ...], Meta(description="Its known values, a row each; all others share one.")
    ] = ()
    hash_buckets: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Rows that its values are hashed into.")
    ] = None
    max_length: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_LENGTH)] | None,
        Meta(description="Any number of values a record: cut off here, filled up with `default`."),
    ] = None
    weights: Annotated[str, Meta(description="Dense feature of the same `max_length`: a weight for each value.")] = ""
    combiner: Annotated[
        Combiner, Meta(description="How a model of ours pools them: `mean`, `sum` or `sqrtn`, all weighted.")
    ] = "mean"

    @property
    def size(self) -> int:
        """Values per record, padding included."""
        return self.max_length or prod(self.shape)

    @property
    def argument(self) -> str:
        """Its name in a SavedModel's signature, where TensorFlow has arguments of Python.

        By TensorFlow's own rule, which it does not apply throughout: what is no letter, digit or `_` is `_`, and what
        begins with no letter, or means something to Python, gets `arg_` before it.
        """
        safe = re.sub("[^A-Za-z0-9_]", "_", self.name)
        plain = safe[0].isalpha() and safe != "self" and not keyword.iskeyword(safe)
        return safe if plain else f"arg_{safe}"

    @property
    def list_kind(self) -> ListKind:
        """How a `tf.Example` holds it."""
        return LIST_KIND[self.kind]

    @property
    def transforms(self) -> tuple[str, ...]:
        """Its keys that change dense values before a model of ours reads them."""
        given = {"clip": self.clip, "transform": self.transform, "missing_indicator": self.missing_indicator}
        return tuple(key for key, value in given.items() if value)

    def defaults(self) -> list[Scalar]:
        """The `size` values that a reader takes where a record lacks it: `stand_ins`, or NaN for an indicator."""
        return [nan] * self.size if self.missing_indicator else self.stand_ins()

    def stand_ins(self) -> list[Scalar]:
        """The `size` values that a model sees where a record lacks it."""
        default = _DEFAULT[self.kind] if self.default is None else self.default
        return list(default) if isinstance(default, tuple) else [default] * self.size

    def __post_init__(self) -> None:
        self._check_list()
        self._check_default()
        self._check_transforms()
        if self.buckets and self.kind != "dense":
            raise ValueError(f"feature `{self.name}`: buckets are for dense features, and it is {self.kind}")
        if any(left >= right for left, right in pairwise(self.buckets)):
            raise ValueError(f"feature `{self.name}`: buckets must ascend, given {list(self.buckets)}")
        if self.kind == "dense" and (self.vocab or self.hash_buckets):
            raise ValueError(f"feature `{self.name}`: vocab and hash_buckets are for ids and strings; it is dense")
        if self.vocab and self.hash_buckets:
            raise ValueError(f"feature `{self.name}`: give vocab or hash_buckets, not both")
        if len(set(self.vocab)) < len(self.vocab):
            raise ValueError(f"feature `{self.name}`: a value stands twice in its vocab")
        self._check_types("vocab", self.vocab)

    def _check_list(self) -> None:
        if self.max_length is None and (self.weights or self.combiner != "mean"):
            raise ValueError(f"feature `{self.name}`: weights and combiner are for features with a max_length")
        if self.max_length is not None and (self.shape or isinstance(self.default, tuple)):
            raise ValueError(
                f"feature `{self.name}`: with a max_length there is no shape, and `default` is the one value that pads"
            )

    def _check_default(self) -> None:
        if isinstance(self.default, tuple) and len(self.default) != self.size:
            raise ValueError(
                f"feature `{self.name}`: default has {len(self.default)} values"
                f" and the shape {list(self.shape)} holds {self.size}"
            )
        self._check_types("default", () if self.default is None else self.stand_ins())

    def _check_transforms(self) -> None:
        for key in self.transforms:
            if self.kind != "dense":
                raise ValueError(f"feature `{self.name}`: {key} is for dense features, and it is {self.kind}")
            if self.max_length is not None:
                raise ValueError(f"feature `{self.name}`: {key} is for features without a max_length")
        if self.missing_indicator and self.size > 1:
            raise ValueError(
                f"feature `{self.name}`: missing_indicator is for one value, and the shape is {list(self.shape)}"
            )
        if self.clip and self.clip[0] >= self.clip[1]:
            raise ValueError(f"feature `{self.name}`: clip must ascend, given {list(self.clip)}")

    def _check_types(self, field: str, values: Iterable[Scalar]) -> None:
        for value in values:
            if isinstance(value, bool) or not isinstance(value, _PYTHON_TYPE[self.kind]):
                # A ValueError, because msgspec turns nothing else into an error with a path.
                raise ValueError(f"feature `{self.name}`: {field} {value!r} is no value of a {self.kind} feature")
