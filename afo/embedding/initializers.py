"""First values of rows: which of Keras' initializers can be a function of the key alone."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np

from afo.errors import Unsupported


class Initializer(NamedTuple):
    """As the operation `AfoAddTable` takes it; see afo/core/initializer.h."""

    distribution: int
    first: float
    second: float
    seed: int


def initializer_of(given: Any, dim: int, seed: int) -> Initializer:
    """`given`: None, a number, a name or an object of Keras. None is normal, cut off at two deviations of
    1 / sqrt(dim), as `tf.feature_column.embedding_column` begins.

    The seed is the initializer's own if it has a number, else `seed`. Raises Unsupported for one whose rows depend on
    one another or on their number (VarianceScaling, Orthogonal, a matrix): a table that grows has no last row.
    """
    if given is None:
        return Initializer(3, 0.0, 1 / math.sqrt(dim), seed)
    if isinstance(given, int | float):
        return Initializer(0, float(given), 0.0, seed)
    found = keras.initializers.get(given)
    own = getattr(found, "seed", None)
    seed = own if isinstance(own, int) else seed
    match found:
        case keras.initializers.Zeros():
            return Initializer(0, 0.0, 0.0, seed)
        case keras.initializers.Ones():
            return Initializer(0, 1.0, 0.0, seed)
        case keras.initializers.Constant() if np.ndim(found.value) == 0:
            return Initializer(0, float(found.value), 0.0, seed)
        case keras.initializers.RandomUniform():
            return Initializer(1, float(found.minval), float(found.maxval), seed)
        case keras.initializers.RandomNormal():
            return Initializer(2, float(found.mean), float(found.stddev), seed)
        case keras.initializers.TruncatedNormal():
            return Initializer(3, float(found.mean), float(found.stddev), seed)
    raise Unsupported(
        f"an embedding variable cannot begin with {type(found).__name__}: each row's first values are a function of its"
        " key alone; use Constant, Zeros, Ones, RandomUniform, RandomNormal or TruncatedNormal"
    )
