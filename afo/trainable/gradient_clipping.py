"""The gradients of a batch within the limits that a Keras optimizer was compiled with."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from afo.embedding.exchange import Exchange
from afo.models.feature_layout import Weight
from afo.optimizers.clipping import Clipping
from afo.trainable.model_protocol import Computed, TableGradients


def clip_gradients(computed: Computed, weights: Sequence[Weight], clipping: Clipping) -> Computed:
    """As `clipping` limits them: of each weight of the dense vector, and of each table the rows that the batch names.

    Rows of hash tables must have come themselves, not as sums.
    """
    if not clipping.clips:
        return computed
    computed = _map_gradients(computed, clipping.clip_values)
    factors = clipping.factors(_squares(computed, weights))
    if not factors:
        return computed
    parts = [part * factors[weight.name] for weight, part in _parts(computed.vector, weights)]
    return computed._replace(
        vector=tf.concat(parts, axis=0) if parts else computed.vector,
        rows=tuple(
            gradient._replace(values=gradient.values * factors[gradient.table.name]) for gradient in computed.rows
        ),
        embeddings=tuple(_times(gradients, factors) for gradients in computed.embeddings),
    )


def _map_gradients(computed: Computed, change: Any) -> Computed:
    return computed._replace(
        vector=change(computed.vector),
        rows=tuple(each._replace(values=change(each.values)) for each in computed.rows),
        embeddings=tuple(each._replace(values=tuple(map(change, each.values))) for each in computed.embeddings),
    )


def _squares(computed: Computed, weights: Sequence[Weight]) -> dict[str, Any]:
    """Sum of the squares of each variable's gradient by its name."""
    found = {weight.name: part for weight, part in _parts(computed.vector, weights)}
    found |= {gradient.table.name: gradient.values for gradient in computed.rows}
    for gradients in computed.embeddings:
        found |= gradients.exchange.by_table(gradients.values)
    return {name: tf.reduce_sum(tf.square(tf.cast(values, tf.float32))) for name, values in found.items()}


def _times(gradients: TableGradients, factors: dict[str, Any]) -> TableGradients:
    exchange = gradients.exchange
    assert isinstance(exchange, Exchange), "layers are not pooled on the servers where gradients are clipped"
    return gradients._replace(values=tuple(exchange.times(gradients.values, factors)))


def _parts(vector: Any, weights: Sequence[Weight]) -> list[tuple[Weight, Any]]:
    return list(zip(weights, tf.split(vector, [weight.size for weight in weights]), strict=True)) if weights else []
