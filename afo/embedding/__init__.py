"""Embedding variables: hash tables of rows that grow, on the native engine."""

from afo.embedding.group import TableGroup
from afo.embedding.lookup import (
    embedding_lookup,
    embedding_lookup_sparse,
    embedding_lookup_sparse_with_distributed_aggregation,
    group_embedding_lookup_sparse,
)
from afo.embedding.tape import EmbeddingTape
from afo.embedding.variable import EmbeddingVariable, get_embedding_variable
from afo.job import (
    Adagrad,
    AdagradDecay,
    Adam,
    AdamW,
    Eviction,
    Filter,
    Ftrl,
    GroupFtrl,
    Momentum,
    RMSprop,
    Sgd,
)
from afo.tables.slot_map import SlotMap

__all__ = [
    "Adagrad",
    "AdagradDecay",
    "Adam",
    "AdamW",
    "EmbeddingTape",
    "EmbeddingVariable",
    "Eviction",
    "Filter",
    "Ftrl",
    "GroupFtrl",
    "Momentum",
    "RMSprop",
    "Sgd",
    "SlotMap",
    "TableGroup",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "embedding_lookup_sparse_with_distributed_aggregation",
    "get_embedding_variable",
    "group_embedding_lookup_sparse",
]
