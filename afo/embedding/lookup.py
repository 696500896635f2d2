"""Lookups of embedding variables, under the names that TensorFlow and DeepRec give them."""

from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from afo.embedding import tape
from afo.embedding.exchange import Asked, Exchange, exchange_of
from afo.embedding.group import TableGroup
from afo.embedding.pool_gradients import COMBINERS
from afo.embedding.pooled_exchange import PooledExchange, pooled_exchange_of
from afo.embedding.variable import EmbeddingVariable, keys_of
from afo.errors import ModelError

_Exchange = TypeVar("_Exchange", Exchange, PooledExchange)


def embedding_lookup(variable: EmbeddingVariable, ids: Any, max_norm: float | None = None) -> Any:
    """Rows of `ids`: [...] → float32 [..., embedding_dim]; ragged ids give ragged rows."""
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(embedding_lookup(variable, ids.flat_values, max_norm))
    ids = tf.convert_to_tensor(ids)
    asked = Asked(variable.number, tf.reshape(keys_of(ids), [-1]), max_norm=max_norm)
    group = variable.group
    [rows] = _ask(exchange_of(group, [asked], insert=tape.active() is not None), group).pool()
    shape = tf.concat([tf.shape(ids), [variable.embedding_dim]], axis=0)
    return tf.ensure_shape(tf.reshape(rows, shape), [*ids.shape, variable.embedding_dim])


def embedding_lookup_sparse(
    variable: EmbeddingVariable,
    sp_ids: Any,
    sp_weights: Any = None,
    combiner: str = "mean",
    max_norm: float | None = None,
) -> Any:
    """Pooled rows of each sample: float32 [samples, embedding_dim]; a sample without ids has zeros.

    `sp_ids`: a SparseTensor or RaggedTensor of rank 2, or a dense [samples, n]. `sp_weights`: as `sp_ids`, or None.
    `combiner`: sum, mean (divided by the sum of weights) or sqrtn (by the root of the sum of their squares).
    """
    return group_embedding_lookup_sparse([variable], [sp_ids], [combiner], [sp_weights], [max_norm], concat=True)


def group_embedding_lookup_sparse(
    variables: Sequence[EmbeddingVariable],
    sp_ids: Sequence[Any],
    combiners: Sequence[str | None],
    sp_weights: Sequence[Any] | None = None,
    max_norms: Sequence[float | None] | None = None,
    *,
    concat: bool = False,
    distributed_aggregation: bool = False,
    wire: Any = tf.float32,
) -> Any:
    """`embedding_lookup_sparse` of many features at once: one question to each server, whatever their number.

    The variables are of one group; one may be there more than once. A combiner of None wants ids of rank 1, and gives
    a row for each. Returns a tensor for each feature, or, with `concat`, one that has them side by side: [samples, sum
    of the widths], much cheaper than `tf.concat` of hundreds. `distributed_aggregation`: as in
    `embedding_lookup_sparse_with_distributed_aggregation`, for all features at once. `wire`: as there; of rows, too.
    """
    count = len(variables)
    weights = list(sp_weights) if sp_weights is not None else [None] * count
    norms = list(max_norms) if max_norms is not None else [None] * count
    lengths = {"sp_ids": len(sp_ids), "combiners": len(combiners), "sp_weights": len(weights), "max_norms": len(norms)}
    for name, length in lengths.items():
        if length != count:
            raise ModelError(f"group_embedding_lookup_sparse has {count} variables and {length} {name}")
    if len({id(variable.group) for variable in variables}) > 1:
        raise ModelError("group_embedding_lookup_sparse: the variables are of more than one group")
    asked = [_make_asked(*arguments) for arguments in zip(variables, sp_ids, weights, combiners, norms, strict=True)]
    group, insert = variables[0].group, tape.active() is not None
    if distributed_aggregation:
        pooled = _ask(pooled_exchange_of(group, asked, insert=insert, wire=wire), group).pool()
        return tf.concat(pooled, axis=1) if concat else pooled
    exchange = _ask(exchange_of(group, asked, insert=insert, wire=wire), group)
    return exchange.concat() if concat else exchange.pool()


def embedding_lookup_sparse_with_distributed_aggregation(
    variable: EmbeddingVariable,
    sp_ids: Any,
    sp_weights: Any = None,
    combiner: str = "mean",
    max_norm: float | None = None,
    *,
    wire: Any = tf.float32,
) -> Any:
    """`embedding_lookup_sparse`, pooled on the servers: each answers with a sum for each sample, whatever its ids.

    Fewer bytes where samples have many ids; more where they have one. `wire`: tf.bfloat16 halves what the sums and
    their gradients cost on the network, at 8 bits of mantissa. Weights have no gradient.
    """
    [pooled] = group_embedding_lookup_sparse(
        [variable], [sp_ids], [combiner], [sp_weights], [max_norm], distributed_aggregation=True, wire=wire
    )
    return pooled


def _ask(exchange: _Exchange, group: TableGroup) -> _Exchange:
    """The same with its answers, which the innermost tape has been told of before anything is made of them."""
    group.as_servers.pull([exchange])
    recording = tape.active()
    if recording is not None:
        recording.record(exchange)
    return exchange


def _make_asked(
    variable: EmbeddingVariable, ids: Any, weights: Any, combiner: str | None, max_norm: float | None
) -> Asked:
    if combiner not in COMBINERS:
        allowed = ", ".join(str(name) for name in COMBINERS)
        raise ModelError(f"embedding variable `{variable.name}`: combiner is {combiner!r}; allowed are {allowed}")
    if combiner is None:
        return Asked(variable.number, tf.reshape(keys_of(tf.convert_to_tensor(ids)), [-1]), max_norm=max_norm)
    ragged = _to_ragged(variable, ids)
    flat = None
    if weights is not None:
        flat = tf.cast(_to_ragged(variable, weights).values, tf.float32)
    return Asked(
        variable.number, keys_of(ragged.values), tf.cast(ragged.row_splits, tf.int64), flat, combiner, max_norm
    )


def _to_ragged(variable: EmbeddingVariable, ids: Any) -> Any:
    """Rank 2, its values one behind the other."""
    if isinstance(ids, tf.SparseTensor):
        ids = tf.RaggedTensor.from_value_rowids(ids.values, ids.indices[:, 0], nrows=ids.dense_shape[0], validate=False)
    elif not isinstance(ids, tf.RaggedTensor):
        dense = tf.convert_to_tensor(ids)
        if dense.shape.rank != 2:
            raise ModelError(
                f"embedding variable `{variable.name}`: ids to be pooled must be [samples, n], and have the shape"
                f" {dense.shape}"
            )
        ids = tf.RaggedTensor.from_tensor(dense)
    if ids.shape.rank != 2:
        raise ModelError(
            f"embedding variable `{variable.name}`: ids to be pooled must be of rank 2 and are of rank {ids.shape.rank}"
        )
    return ids
