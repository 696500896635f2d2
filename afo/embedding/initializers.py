"""First values of rows: which of Keras' initializers can be a function of the key alone."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np

from afo.errors import Unsupported


class Initializer(NamedTuple):
    """As the operation `AfoAddTable` takes it: a distribution of afo/core/initializer.h, and the options it reads."""

    distribution: str
    seed: int
    value: float = 0.0
    minval: float = 0.0
    maxval: float = 0.0
    mean: float = 0.0
    stddev: float = 0.0

    def options(self) -> dict[str, float]:
        """By the names that `InitializerOptions` (afo/core/initializer.h) has for them."""
        return {name: float(value) for name, value in self._asdict().items() if name not in ("distribution", "seed")}


def initializer_of(given: Any, dim: int, seed: int) -> Initializer:
    """`given`: None, a number, a name or an object of Keras. None is normal, cut off at two deviations of
    1 / sqrt(dim), as `tf.feature_column.embedding_column` begins.

    The seed is the initializer's own if it has a number, else `seed`. Raises Unsupported for one whose rows depend on
    one another or on their number (VarianceScaling, Orthogonal, a matrix): a table that grows has no last row.
    """
    if given is None:
        return Initializer("truncated_normal", seed, stddev=1 / math.sqrt(dim))
    if isinstance(given, int | float):
        return Initializer("constant", seed, value=given)
    found = keras.initializers.get(given)
    own = getattr(found, "seed", None)
    seed = own if isinstance(own, int) else seed
    match found:
        case keras.initializers.Zeros():
            return Initializer("constant", seed, value=0.0)
        case keras.initializers.Ones():
            return Initializer("constant", seed, value=1.0)
        case keras.initializers.Constant() if np.ndim(found.value) == 0:
            return Initializer("constant", seed, value=found.value)
        case keras.initializers.RandomUniform():
            return Initializer("uniform", seed, minval=found.minval, maxval=found.maxval)
        case keras.initializers.RandomNormal():
            return Initializer("normal", seed, mean=found.mean, stddev=found.stddev)
        case keras.initializers.TruncatedNormal():
            return Initializer("truncated_normal", seed, mean=found.mean, stddev=found.stddev)
    raise Unsupported(
        f"an embedding variable cannot begin with {type(found).__name__}: each row's first values are a function of its"
        " key alone; use Constant, Zeros, Ones, RandomUniform, RandomNormal or TruncatedNormal"
    )
