"""What the sections of a job file have in common."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Role = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[Role, ...] = ("chief", "worker", "ps", "evaluator")

#: What YARN, Java and TensorFlow hold in 32 bits; more of anything here is a slip of the pen.
MOST_INT = 2**31 - 1
PositiveInt = Annotated[int, Meta(ge=1, le=MOST_INT)]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all sections: frozen, and an unknown key is an error."""
