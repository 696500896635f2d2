"""A SavedModel that nobody trained, and records for it: Wide & Deep of 10 categorical and 5 dense features, rows of 16,
layers of 128 and 64."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from afo.checkpoint.manifest import Manifest
from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.schema import Schema
from afo.embedding.saved_tables import Rows
from afo.job import Data, Embedding, Job, Model, RoleSpec, TableKind

CATEGORICAL, DENSE = 10, 5
#: Rows whose weights are drawn; further ones have the same.
_DRAWN = 100_000


class _RandomCheckpoint:
    """A checkpoint with the tensors of a model, and the rows of the keys from 0 on."""

    url = "nowhere/manifest-g000001-s000000000001-final.json"
    manifest = Manifest(version=3, generation=1, step=1, final=True, directory="g000001-x", rows={}, parts=())
    merged_in = None

    def __init__(self, keys: int, dense: int) -> None:
        self._random, self._keys, self._dense = np.random.default_rng(1), keys, dense

    def whole(self, name: str, _dtype: str = "float32") -> Any:
        """The dense weights, or counts, sums and sums of squares of the dense features."""
        return self._normal(self._dense) if name == "dense" else np.repeat([[10.0], [0.0], [10.0]], DENSE, axis=1)

    def hash_tables(self, dims: Mapping[str, int]) -> dict[str, Rows]:
        """Of equal width the same ones."""
        keys = np.arange(self._keys)
        weights = {
            dim: np.resize(self._normal(min(self._keys, _DRAWN), dim), (self._keys, dim)) for dim in set(dims.values())
        }
        return {name: Rows(keys, weights[dim]) for name, dim in dims.items()}

    def _normal(self, *shape: int) -> Any:
        return self._random.normal(0, 0.05, shape).astype(np.float32)


def export_random_model(scratch: Path, keys: int, tables: TableKind = "native") -> str:
    """Write it below `scratch`, tables of `keys` rows each, and return where."""
    from afo.train.export import export
    from afo.train.setup import JobParts

    features = [Feature(name=f"c{n}", kind="categorical") for n in range(CATEGORICAL)]
    features += [Feature(name=f"d{n}", kind="dense") for n in range(DENSE)]
    schema = scratch / "schema.yaml"
    schema.write_text(Schema(label="click", sample_id="sample_id", features=tuple(features)).to_yaml())
    job = Job(
        name="served", model=Model(hidden_units=(128, 64), embedding=Embedding(dim=16)),
        roles={"ps": RoleSpec(), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=("x",), sample_id="sample_id"),
    )  # fmt: skip
    parts, target = JobParts(job, str(schema)), str(scratch / f"exported-{tables}")
    checkpoint = _RandomCheckpoint(keys, parts.model.parameters(1, 1).dense.rows)
    export(parts, checkpoint, target, scratch, "float32", tables)  # type: ignore[arg-type]
    return target


def random_records(count: int, keys: int) -> list[bytes]:
    """Serialized, with keys below `keys`."""
    random = np.random.default_rng(1)
    return [
        encode(
            {f"c{n}": [int(key)] for n, key in enumerate(random.integers(0, keys, CATEGORICAL))}
            | {f"d{n}": [float(value)] for n, value in enumerate(random.normal(size=DENSE))}
            | {"click": [0], "sample_id": [number]}
        )
        for number in range(count)
    ]
