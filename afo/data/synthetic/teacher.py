"""A click model with known probabilities: what the synthetic data is drawn from.

With ids `i_f` of the categorical features and a vector `x` of the dense ones, the teacher's log odds are

    logit  = bias + wide + cross + deep
    wide   = sum over f of w_f[i_f]
    cross  = sum over the crossed pairs (f, g) of t_fg[i_f, i_g]
    deep   = scale * sum over k of tanh(z_2k) * tanh(z_2k+1),   z = sum over f of v_f[i_f] + D x

and a label is 1 with probability sigmoid(logit). Ids follow a power law: the id of rank r (from 1) has probability
proportional to r**-exponent. Every number is drawn from the seed. `wide` is what a linear model can learn, `cross`
needs crossed features or hidden layers, `deep` needs embeddings and hidden layers. Features of a few thousand ids hold
much of `wide`, so that hashing ids into few buckets costs accuracy.
"""

from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Spread of each coordinate of z. At 1.0 tanh is bent well but still tells the sizes apart.
LATENT_STD = 1.0
#: Draws by which the deep part's own spread is measured, to scale it.
CALIBRATION_DRAWS = 65_536


class Categorical(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One id feature. `wide` and `latent` are its relative shares of the variance of the wide part and of z."""

    name: str
    cardinality: int
    exponent: float
    wide: float = 1.0
    latent: float = 0.0


class TeacherSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that determines a teacher. Standard deviations are in units of log odds."""

    categorical: tuple[Categorical, ...] = (
        Categorical("user_id", 50_000, 1.3, wide=0.5),
        Categorical("item_id", 3_000, 1.0, wide=3.0),
        Categorical("query_id", 2_000, 1.0, wide=3.0),
        Categorical("advertiser_id", 500, 0.9, wide=1.0),
        Categorical("site_id", 200, 0.8, wide=1.0),
        Categorical("category", 100, 0.9, wide=1.0, latent=1.0),
        Categorical("city", 50, 1.0, wide=1.0, latent=1.0),
        Categorical("device", 20, 1.0, wide=1.0, latent=1.0),
        Categorical("hour", 24, 0.3, wide=1.0),
        Categorical("position", 8, 0.7, wide=1.0),
    )
    dense: tuple[str, ...] = ("user_age", "price", "item_ctr", "dwell_time", "similarity")
    crosses: tuple[tuple[str, str], ...] = (("category", "position"), ("hour", "device"), ("device", "position"))
    latent_dim: int = 2
    dense_latent: float = 2.0
    bias: float = -1.2
    wide_std: float = 1.5
    cross_std: float = 0.7
    deep_std: float = 0.8
    seed: int = 1


class Draw(msgspec.Struct, frozen=True):
    """n samples: ids by feature name, each int64 [n]; dense float32 [n, features]; logit [n]; label int64 [n]."""

    ids: dict[str, Ints]
    dense: NDArray[np.float32]
    logit: Floats
    label: Ints


class Teacher:
    """The tables of one teacher; `draw` makes samples with it."""

    def __init__(self, spec: TeacherSpec) -> None:
        self.spec = spec
        self._features = {feature.name: feature for feature in spec.categorical}
        self._cdf: dict[str, Floats] = {}
        self._id_of_rank: dict[str, Ints] = {}
        self._probability: dict[str, Floats] = {}
        for number, feature in enumerate(spec.categorical):
            self._plant_ids(feature, self._rng(0, number))
        wide_total = sum(feature.wide for feature in spec.categorical)
        latent_total = sum(feature.latent for feature in spec.categorical) + spec.dense_latent
        self._wide = {
            f.name: self._weights(f, spec.wide_std * np.sqrt(f.wide / wide_total), 1, self._rng(1, number))[:, 0]
            for number, f in enumerate(spec.categorical)
        }
        self._latent = {
            f.name: self._weights(
                f, LATENT_STD * np.sqrt(f.latent / latent_total), spec.latent_dim, self._rng(2, number)
            )
            for number, f in enumerate(spec.categorical)
            if f.latent
        }
        self._cross = {pair: self._cross_table(pair, self._rng(3, n)) for n, pair in enumerate(spec.crosses)}
        direction = self._rng(4).standard_normal((len(spec.dense), spec.latent_dim))
        direction /= np.linalg.norm(direction, axis=0)
        self._dense: Floats = direction * LATENT_STD * np.sqrt(spec.dense_latent / latent_total)

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.spec.seed, *purpose])

    def _plant_ids(self, feature: Categorical, rng: np.random.Generator) -> None:
        weight = np.arange(1, feature.cardinality + 1, dtype=np.float64) ** -feature.exponent
        by_rank = weight / weight.sum()
        self._cdf[feature.name] = np.cumsum(by_rank)
        # A random id for each rank, so that the number of an id says nothing about how frequent it is.
        id_of_rank = rng.permutation(feature.cardinality)
        self._id_of_rank[feature.name] = id_of_rank
        probability = np.empty(feature.cardinality)
        probability[id_of_rank] = by_rank
        self._probability[feature.name] = probability

    def _weights(self, feature: Categorical, std: float, columns: int, rng: np.random.Generator) -> Floats:
        """Table [cardinality, columns] whose mean is 0 and standard deviation `std` under the feature's power law."""
        probability = self._probability[feature.name]
        table = rng.standard_normal((feature.cardinality, columns))
        table -= probability @ table
        table *= std / np.sqrt(probability @ table**2)
        return table

    def _cross_table(self, pair: tuple[str, str], rng: np.random.Generator) -> Floats:
        left, right = (self._probability[name] for name in pair)
        table = rng.standard_normal((left.size, right.size))
        # Without its row and column means, nothing of the cross is within the reach of a linear model.
        table -= (table @ right)[:, None]
        table -= left @ table
        table *= self.spec.cross_std / np.sqrt(len(self.spec.crosses) * (left @ table**2 @ right))
        return table

    def draw(self, count: int, rng: np.random.Generator) -> Draw:
        """`count` independent samples, determined by the state of `rng`."""
        ids, dense = self._inputs(count, rng)
        logit = self.logit(ids, dense)
        label = (rng.random(count) < sigmoid(logit)).astype(np.int64)
        return Draw(ids, dense, logit, label)

    def _inputs(self, count: int, rng: np.random.Generator) -> tuple[dict[str, Ints], NDArray[np.float32]]:
        ids = {}
        for name, cdf in self._cdf.items():
            rank = np.searchsorted(cdf, rng.random(count) * cdf[-1], side="right")
            ids[name] = self._id_of_rank[name][rank]
        return ids, rng.standard_normal((count, len(self.spec.dense)), dtype=np.float32)

    def logit(self, ids: dict[str, Ints], dense: NDArray[np.float32]) -> Floats:
        """Log odds [n] of samples with these ids and dense values."""
        total = np.full(len(dense), self.spec.bias)
        for name, weight in self._wide.items():
            total += weight[ids[name]]
        for (left, right), table in self._cross.items():
            total += table[ids[left], ids[right]]
        total += self._deep_scale * self._deep(ids, dense)
        return total

    def _deep(self, ids: dict[str, Ints], dense: NDArray[np.float32]) -> Floats:
        z: Floats = dense.astype(np.float64) @ self._dense
        for name, latent in self._latent.items():
            z += latent[ids[name]]
        bent = np.tanh(z)
        return np.asarray((bent[:, 0::2] * bent[:, 1::2]).sum(axis=1))

    @cached_property
    def _deep_scale(self) -> float:
        spread = float(self._deep(*self._inputs(CALIBRATION_DRAWS, self._rng(5))).std())
        return self.spec.deep_std / spread


def sigmoid(logit: Floats) -> Floats:
    """1 / (1 + exp(-logit)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logit)))
