"""Wide & Deep: Cheng et al., "Wide & Deep Learning for Recommender Systems" (2016), arXiv:1606.07792."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from afo.models.feature_layout import Layout

#: A standardised dense value is kept within so many standard deviations.
CLIP = 5.0
#: Added to the variance, against features that never vary.
EPSILON = 1e-6


def standardise_batch(dense: Any, seen: Any) -> tuple[Any, Any]:
    """The statistics of a batch's dense values [B, n], and the values by these and all that were `seen` before."""
    own = batch_statistics(dense)
    return own, standardise(dense, seen + own)


def standardise(dense: Any, statistics: Any) -> Any:
    """Dense values [B, n] with mean 0 and variance 1 by `statistics` [3, n]: samples, sum, sum of squares."""
    return standardise_by(dense, *moments(statistics))


def moments(statistics: Any) -> tuple[Any, Any]:
    """The mean and what a difference from it is multiplied by, float32 [n] each."""
    samples = tf.maximum(statistics[0], 1.0)
    mean = statistics[1] / samples
    variance = tf.maximum(statistics[2] / samples - mean**2, 0.0) + EPSILON
    return tf.cast(mean, tf.float32), tf.math.rsqrt(tf.cast(variance, tf.float32))


def standardise_by(dense: Any, mean: Any, factor: Any) -> Any:
    """As `standardise`, by what `moments` found."""
    return tf.clip_by_value((dense - mean) * factor, -CLIP, CLIP)


def batch_statistics(dense: Any) -> Any:
    """What `standardise` needs to know of a batch, float64 [3, n]; sums over batches add up."""
    wide = tf.cast(dense, tf.float64)
    size, features = tf.cast(tf.shape(wide)[0], tf.float64), tf.shape(wide)[1]
    return tf.stack([tf.fill([features], size), tf.reduce_sum(wide, axis=0), tf.reduce_sum(wide**2, axis=0)])


def logits(layout: Layout, embeddings: Any, wide: Any, dense: Any, vector: Any, shares: Any = None) -> Any:
    """Log odds [B].

    `embeddings` [B, ids, dim] of the sparse features' ids, `wide` [B, ids + crosses] linear weights (either None where
    the model lacks that part), `dense` [B, n] standardised, `vector` all dense weights as `Layout.weights` places them,
    `shares` [B, ids] what each id counts with (`Encoded.shares`; used only where a feature is a list of values).
    """
    together = None if embeddings is None else pool_embeddings(layout, embeddings, shares)
    linear = None if wide is None else linear_sum(layout, wide, shares)
    return log_odds(layout, together, linear, dense, vector)


def log_odds(layout: Layout, embeddings: Any, linear: Any, dense: Any, vector: Any) -> Any:
    """Log odds [B]: as `logits`, of what `pool_embeddings` [B, features * dim] and `linear_sum` [B] gave."""
    weights = unpack_weights(layout, vector)
    # As large as what is added: TensorFlow orders sums by their shapes, and each order rounds in its own way.
    total = weights["bias"] + tf.zeros([tf.shape(dense)[0]])
    if linear is not None:
        total += linear
    if embeddings is not None:
        total += _deep(layout, embeddings, dense, weights)
    return total


class FirstInputs(NamedTuple):
    """Some inputs of the first layer, float32 [B, inputs], and their rows of its kernel, [inputs, units]."""

    values: Any
    kernel: Any


def deep_for_one_user(layout: Layout, user: FirstInputs, items: FirstInputs, weights: dict[str, Any]) -> Any:
    """[n] float32: what the layers make of a user's inputs (B = 1) and n items', which together are all.

    `weights`: all but the first kernel. The user's share of the first layer is a part of the items' bias.
    """
    bias = weights["layer0/bias"]
    if layout.precision == "float32":
        bias = tf.reshape(tf.matmul(*user) + bias, [-1])
        return _layers(layout, tf.nn.relu(tf.nn.bias_add(tf.matmul(*items), bias)), weights, 1)
    # Inputs and kernel are rounded where they are used, and a sum as a whole: the part of one is not.
    of_user, of_items = (
        tf.matmul(*(tf.cast(tf.cast(value, layout.precision), tf.float32) for value in side)) for side in (user, items)
    )
    first = tf.cast(of_user + of_items, layout.precision) + tf.cast(bias, layout.precision)
    return _layers(layout, tf.nn.relu(first), weights, 1)


def linear_sum(layout: Layout, wide: Any, shares: Any) -> Any:
    """[B]: linear weights [B, ids + crosses] times what each counts with; a cross counts whole."""
    if layout.has_lists:
        wide *= tf.pad(shares, [[0, 0], [0, len(layout.crosses)]], constant_values=1.0)
    return tf.reduce_sum(wide, axis=1)


def pool_embeddings(layout: Layout, embeddings: Any, shares: Any) -> Any:
    """[B, features * dim]: a list counts as its combiner says, another feature of several values with their mean."""
    if layout.has_lists:
        embeddings *= shares[:, :, tf.newaxis]
    if layout.ids_per_sample == len(layout.sparse):
        width = len(layout.sparse) * layout.dim
        # A shape that is known beforehand saves a request the operations that find it.
        return tf.reshape(embeddings, [-1 if width else tf.shape(embeddings)[0], width])
    parts = tf.split(embeddings, [column.values for column in layout.sparse], axis=1)
    by_feature = [
        tf.reduce_sum(part, axis=1) if column.pooling else tf.reduce_mean(part, axis=1)
        for column, part in zip(layout.sparse, parts, strict=True)
    ]
    return tf.concat(by_feature, axis=1)


def unpack_weights(layout: Layout, vector: Any) -> dict[str, Any]:
    """The dense weights by name."""
    parts = tf.split(vector, [weight.size for weight in layout.weights])
    return {weight.name: tf.reshape(part, weight.shape) for weight, part in zip(layout.weights, parts, strict=True)}


def initial_vector(layout: Layout, seed: int) -> Any:
    """First dense weights, float32: kernels uniform as Glorot and Bengio (2010) say, biases zero."""
    generator = np.random.default_rng(seed)
    vector = np.zeros(layout.dense_size, np.float32)
    for weight in layout.weights:
        if weight.name.endswith("/kernel"):
            limit = np.sqrt(6.0 / sum(weight.shape))
            vector[weight.offset : weight.offset + weight.size] = generator.uniform(-limit, limit, weight.size)
    return vector


def weighted_loss(label: Any, weight: Any, log_odds: Any) -> Any:
    """Sum of the samples' logistic losses, in nats, by weight."""
    return tf.reduce_sum(weight * tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=log_odds))


def _deep(layout: Layout, embeddings: Any, dense: Any, weights: dict[str, Any]) -> Any:
    """[B] float32, whatever the layers compute in: their kernels are float32 and rounded where they are used."""
    hidden = tf.cast(tf.concat([embeddings, dense], axis=1), layout.precision)
    return _layers(layout, hidden, weights, 0)


def _layers(layout: Layout, hidden: Any, weights: dict[str, Any], first: int) -> Any:
    """[B] float32 of what goes into layer `first`."""
    computed = {name: tf.cast(weight, layout.precision) for name, weight in weights.items()}
    for number in range(first, len(layout.hidden_units)):
        hidden = tf.nn.relu(tf.matmul(hidden, computed[f"layer{number}/kernel"]) + computed[f"layer{number}/bias"])
    return tf.cast(tf.squeeze(tf.matmul(hidden, computed["output/kernel"]), axis=1), tf.float32)
