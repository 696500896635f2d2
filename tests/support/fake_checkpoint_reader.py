"""Stands for the reader of a checkpoint whose tensors are random."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from afo.checkpoint.manifest import Manifest
from afo.tables.merged_rows import MergedRows
from afo.tables.saved_tables import Rows

#: Sums for the standardisation of one value.
STATISTICS = np.array([[10.0], [400.0], [20000.0]])


class FakeCheckpointReader:
    """`whole`: the tensors of one part by name; the dense vector is of as many weights as `dense` says."""

    url = "nowhere/manifest-g000001-s000000000007-final.json"
    manifest = Manifest(version=3, generation=1, step=7, final=True, directory="g000001-x", rows={}, parts=())

    #: A directory: the rows of hash tables are merged there.
    merged_in: Path | None = None

    def __init__(self, seed: int, dense: int, whole: Mapping[str, Any] | None = None, keys: int = 6) -> None:
        self._random = np.random.default_rng(seed)
        self._dense, self._keys = dense, keys
        self._whole = {"statistics": STATISTICS} if whole is None else whole

    def table(self, _name: str, rows: int, width: int) -> Any:
        """Rows of a table."""
        return self._normal(rows, width)

    def whole(self, name: str, _dtype: str = "float32") -> Any:
        """The dense weights, or what was given."""
        return self._normal(self._dense) if name == "dense" else self._whole[name]

    def hash_tables(self, dims: Mapping[str, int]) -> dict[str, Rows] | dict[str, MergedRows]:
        """Rows of the ids from 0 on; others are absent."""
        keys = np.arange(self._keys)
        found = {name: Rows(keys, self._normal(self._keys, dim)) for name, dim in dims.items()}
        if self.merged_in is None:
            return found
        return {name: self._merged(rows) for name, rows in found.items()}

    def _merged(self, rows: Rows) -> MergedRows:
        assert self.merged_in is not None
        merged = MergedRows(rows.dim, self.merged_in)
        records = np.zeros(len(rows.keys), merged.record)
        records["key"], records["order"], records["weights"] = rows.keys, 1, rows.weights
        for part in np.array_split(records[::-1], 2):
            merged.add_run([part])
        return merged

    def _normal(self, *shape: int) -> Any:
        return self._random.normal(size=shape, scale=0.3).astype(np.float32)
