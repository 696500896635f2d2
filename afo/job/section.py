"""What the sections of a job file have in common."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Role = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[Role, ...] = ("chief", "worker", "ps", "evaluator")

PositiveInt = Annotated[int, Meta(ge=1)]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all sections: frozen, and an unknown key is an error."""
