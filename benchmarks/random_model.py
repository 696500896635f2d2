"""Exported Wide & Deep models with random weights, and records for them, of any number of features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from afo.checkpoint.manifest import Manifest
from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.schema import Schema
from afo.job import Data, Embedding, Job, Model, RoleSpec, TableKind
from afo.tables.saved_tables import Rows

LENGTH = 50


#: Rows whose weights are drawn; further ones have the same.
_DRAWN = 100_000


@dataclass(frozen=True)
class RandomModel:
    """Features `c0`, … and `d0`, …; rows of 16, layers of 128 and 64, hash tables of `keys` rows.

    The first `lists` categorical features have 50 values each.
    """

    categorical: int
    dense: int
    keys: int
    lists: int = 0

    def export(self, scratch: Path, user_features: tuple[str, ...] = (), tables: TableKind = "native") -> str:
        """Write a SavedModel below `scratch` and return where."""
        from afo.train.exports.export import export
        from afo.train.setup import JobParts

        features = [Feature(name=f"c{n}", kind="categorical", max_length=LENGTH) for n in range(self.lists)]
        features += [Feature(name=f"c{n}", kind="categorical") for n in range(self.lists, self.categorical)]
        features += [Feature(name=f"d{n}", kind="dense") for n in range(self.dense)]
        schema = scratch / "schema.yaml"
        schema.write_text(Schema(label="click", sample_id="sample_id", features=tuple(features)).to_yaml())
        job = Job(
            name="served", model=Model(hidden_units=(128, 64), embedding=Embedding(dim=16)),
            roles={"ps": RoleSpec(), "worker": RoleSpec()},
            data=Data(schema="schema.yaml", train=("x",), sample_id="sample_id"),
        )  # fmt: skip
        parts, target = JobParts(job, str(schema)), str(scratch / f"exported-{tables}")
        checkpoint: Any = _RandomCheckpoint(self, parts.model.parameters(1, 1).dense.rows)
        export(parts, checkpoint, target, scratch, "float32", tables, user_features)
        return target

    def samples(self, count: int) -> list[dict[str, Any]]:
        """Values by feature: a request needs neither label nor id."""
        random = np.random.default_rng(1)
        return [
            {f"c{n}": random.integers(1, self.keys, self._length(n)).tolist() for n in range(self.categorical)}
            | {f"d{n}": [float(value)] for n, value in enumerate(random.normal(size=self.dense))}
            for _ in range(count)
        ]

    def _length(self, categorical: int) -> int:
        return LENGTH if categorical < self.lists else 1


def records(samples: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Serialized, as a request has them."""
    return [encode(dict(sample)) for sample in samples]


class _RandomCheckpoint:
    """A checkpoint that nobody trained, with the tensors of a model."""

    url = "nowhere/manifest-g000001-s000000000001-final.json"
    manifest = Manifest(version=3, generation=1, step=1, final=True, directory="g000001-x", rows={}, parts=())
    merged_in = None

    def __init__(self, model: RandomModel, weights: int) -> None:
        self._random, self._model, self._weights = np.random.default_rng(1), model, weights

    def whole(self, name: str, _dtype: str = "float32") -> Any:
        """The dense weights, or counts, sums and sums of squares of the dense features."""
        if name == "dense":
            return self._normal(self._weights)
        return np.repeat([[10.0], [0.0], [10.0]], self._model.dense, axis=1)

    def hash_tables(self, dims: Mapping[str, int]) -> dict[str, Rows]:
        """Rows of the keys from 0 on, in tables of equal width the same ones."""
        count = self._model.keys
        drawn = {dim: self._normal(min(count, _DRAWN), dim) for dim in set(dims.values())}
        weights = {dim: np.resize(rows, (count, dim)) for dim, rows in drawn.items()}
        return {name: Rows(np.arange(count), weights[dim]) for name, dim in dims.items()}

    def _normal(self, *shape: int) -> Any:
        return self._random.normal(0, 0.05, shape).astype(np.float32)
