"""The native operations in a process of a job."""

from afo.errors import Unsupported
from afo.ops import library


def load() -> None:
    """Before the first graph names them. Raises Unsupported, with what a job can do instead."""
    try:
        library.load()
    except Unsupported as error:
        raise Unsupported(f"{error}; or train without them: `model.embedding: {{storage: dense}}`") from error
