"""afo: AI framework on YARN.

`afo.get_embedding_variable`, `afo.embedding_lookup` and the other names of `afo.embedding` are here too. They import
TensorFlow, which most of afo does without, so that happens when one of them is first used.
"""

from typing import Any

__version__ = "0.1.0"

_EMBEDDING = frozenset(
    {
        "EmbeddingTape",
        "EmbeddingVariable",
        "embedding_lookup",
        "embedding_lookup_sparse",
        "embedding_lookup_sparse_with_distributed_aggregation",
        "get_embedding_variable",
        "group_embedding_lookup_sparse",
    }
)


def __getattr__(name: str) -> Any:
    """A name of `afo.embedding`."""
    if name not in _EMBEDDING:
        raise AttributeError(f"module 'afo' has no attribute {name!r}")
    from afo import embedding

    return getattr(embedding, name)
