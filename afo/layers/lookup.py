"""Where the rows of `Embedding` come from: in a job of afo the trainer says so, elsewhere nobody does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Lookup(Protocol):
    """Answers for the tables of all layers of a model."""

    def __call__(self, layer: Any, ids: Any) -> Any:
        """Rows of the table of `layer` (an `Embedding`): int64 [...] → float32 [..., output_dim]."""


_active: list[Lookup] = []


def active() -> Lookup | None:
    """The one that answers now; None outside of a job, where a layer holds its own table."""
    return _active[-1] if _active else None


@contextmanager
def answered_by(lookup: Lookup) -> Iterator[None]:
    """Inside of the block `lookup` answers. Layers that are built there hold no table ever after."""
    _active.append(lookup)
    try:
        yield
    finally:
        _active.pop()
