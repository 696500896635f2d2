"""A profile of a live training process: who wants one writes `WANTED` into its directory, and it answers with `DONE`.
`WANTED` is there for as long as somebody waits.

No TensorFlow here. The files of a profile lie in `FOLDER`/<number>/ of that directory.
"""

from typing import Annotated

from msgspec import Meta, Struct

WANTED, DONE, FOLDER = "profile.wanted", "profile.done", "profile"
#: Of a profile, beside TensorFlow's own files.
OPERATORS, STACKS = "operators.json", "stacks.txt"
#: Seconds; a profile of a busy process grows by some MB each.
MAX_S = 30.0

Seconds = Annotated[float, Meta(gt=0, le=MAX_S)]


class Wanted(Struct, frozen=True, kw_only=True):
    """Numbers grow; each is answered once."""

    number: int
    seconds: Seconds


class Done(Struct, frozen=True, kw_only=True):
    """`problem`: why there is none, '' if there is."""

    number: int
    problem: str = ""


class Operator(Struct, frozen=True, kw_only=True):
    """All runs of one kind of operator: milliseconds on the clock of its thread, what it called included."""

    name: str
    milliseconds: float
    calls: int


class Operators(Struct, frozen=True, kw_only=True):
    """The hottest operators of one process, hottest first, in so many seconds.

    `steps`: of its own that ended in them; None of a process that makes none.
    """

    seconds: float
    steps: int | None = None
    operators: tuple[Operator, ...]
