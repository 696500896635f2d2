"""First rows of the embeddings of a user's model, by the Keras initializer of each layer, made where they live."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from afo.state.initialize import Draw

_RANDOM = (
    keras.initializers.RandomNormal,
    keras.initializers.RandomUniform,
    keras.initializers.TruncatedNormal,
)
_CONSTANT = (keras.initializers.Zeros, keras.initializers.Ones)


def draw_of(layer: Any, servers: int, seed: int) -> Draw:
    """What `layer` begins with, shard by shard. `seed` counts where the initializer has none that is a number.

    An initializer whose rows depend on one another (`Orthogonal`, a matrix, a function of the user's) makes the whole
    table in this process first.
    """
    initializer = layer.embeddings_initializer
    if isinstance(initializer, _CONSTANT) or _is_scalar(initializer):
        return lambda shape, number: initializer(shape, dtype="float32")
    if isinstance(initializer, _RANDOM):
        kind, config = type(initializer), initializer.get_config()
        return lambda shape, number: _draw(kind, {**config, "seed": _seed(initializer, seed, number)}, shape)
    if isinstance(initializer, keras.initializers.VarianceScaling):
        return lambda shape, number: _draw_part(initializer, layer, _seed(initializer, seed, number), shape)
    whole = tf.cast(initializer((layer.input_dim, layer.output_dim), dtype="float32"), tf.float32)
    return lambda shape, number: whole[number % servers :: servers]


def _draw(kind: Any, config: dict[str, Any], shape: tuple[int, ...]) -> Any:
    return kind.from_config(config)(shape, dtype="float32")


def _draw_part(initializer: Any, layer: Any, seed: int, shape: tuple[int, ...]) -> Any:
    """A part of what the initializer would draw for the whole table: its spread goes by the number of all rows."""
    part, whole = (_fan(initializer.mode, rows, layer.output_dim) for rows in (shape[0], layer.input_dim))
    scale = initializer.scale * part / whole
    config = {"scale": scale, "mode": initializer.mode, "distribution": initializer.distribution, "seed": seed}
    return _draw(keras.initializers.VarianceScaling, config, shape)


def _fan(mode: str, rows: int, width: int) -> float:
    """As Keras counts: a table [rows, width] has `rows` inputs and `width` outputs."""
    fans = {"fan_in": float(rows), "fan_out": float(width), "fan_avg": (rows + width) / 2}
    return max(1.0, fans[mode])


def _seed(initializer: Any, fallback: int, number: int) -> int:
    """Another one for each shard, or all would begin alike."""
    given = initializer.seed if isinstance(initializer.seed, int) else fallback
    return int(np.random.SeedSequence([given, number]).generate_state(1)[0] >> 1)


def _is_scalar(initializer: Any) -> bool:
    return isinstance(initializer, keras.initializers.Constant) and np.ndim(initializer.value) == 0
