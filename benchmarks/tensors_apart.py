"""The other side of what messages are compared with: TensorFlow sends each tensor of a step by itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from afo.embedding import pull_push


@contextmanager
def tensors_apart() -> Iterator[None]:
    """Steps that are traced meanwhile send no messages of afo's."""
    whole = pull_push._move

    def apart(servers: pull_push.Servers, *given: object) -> object:
        return whole(servers._replace(carries=False), *given)  # type: ignore[arg-type]

    pull_push._move = apart  # type: ignore[assignment]
    try:
        yield
    finally:
        pull_push._move = whole
