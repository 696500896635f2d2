"""Parts of the training's wait for input. No TensorFlow here."""

from typing import Literal

from msgspec import Struct, structs

#: Share of the time of all steps from which on a job says what bounds its input.
NOTABLE = 0.05

#: `files`: leasing and copying them here; `reading`: taking records out of them; `preparing`: making batches of these.
InputBound = Literal["files", "reading", "preparing"]


class InputWait(Struct, frozen=True):
    """Seconds that training waited for a batch, by what its input did meanwhile."""

    files: float = 0.0
    reading: float = 0.0
    preparing: float = 0.0

    @property
    def total(self) -> float:
        """Seconds in all."""
        return self.files + self.reading + self.preparing

    @property
    def longest(self) -> InputBound:
        """What was waited for longest."""
        names: tuple[InputBound, ...] = ("files", "reading", "preparing")
        return max(names, key=lambda name: getattr(self, name))

    def __add__(self, other: "InputWait") -> "InputWait":
        return InputWait(*map(sum, zip(structs.astuple(self), structs.astuple(other), strict=True)))

    def __sub__(self, other: "InputWait") -> "InputWait":
        return InputWait(*(one - two for one, two in zip(structs.astuple(self), structs.astuple(other), strict=True)))


def bound_of(waited: InputWait, step_s: float) -> InputBound | None:
    """What bounds the input of steps that took `step_s` in all, wait included; None where the wait is not notable."""
    return waited.longest if waited.total >= NOTABLE * step_s > 0 else None
