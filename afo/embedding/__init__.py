"""Embedding variables: hash tables of rows that grow, on the native engine."""

from afo.embedding.group import TableGroup
from afo.embedding.lookup import (
    embedding_lookup,
    embedding_lookup_sparse,
    embedding_lookup_sparse_with_distributed_aggregation,
    group_embedding_lookup_sparse,
)
from afo.embedding.policies import Eviction, Filter
from afo.embedding.tape import EmbeddingTape
from afo.embedding.variable import EmbeddingVariable, get_embedding_variable

__all__ = [
    "EmbeddingTape",
    "EmbeddingVariable",
    "Eviction",
    "Filter",
    "TableGroup",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "embedding_lookup_sparse_with_distributed_aggregation",
    "get_embedding_variable",
    "group_embedding_lookup_sparse",
]
