"""Checkpoints of a model on disk that nobody trained: a whole one, and others with the changes since."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afo.checkpoint import manifest
from afo.checkpoint.manifest import Manifest, Part
from afo.tables.saved_tables import SavedTable
from saved_chain import block, save


class CheckpointChain:
    """Writes checkpoint after checkpoint of a model on hash tables into `directory`; each stands on the one before."""

    def __init__(self, directory: Path, model: Any) -> None:
        parameters = model.parameters(1, 1)
        self._directory, self._random = directory, np.random.default_rng(5)
        self._dense = parameters.dense.rows
        self._state = {each.tensor: np.ones(each.shape, each.dtype) for each in parameters.state}
        self.tables = tuple(SavedTable(table.name, table.dim, "Adagrad", 1) for table in parameters.embeddings.tables)
        self._base: Path | None = None
        self._step = 0

    def save(self, rows: Mapping[int, float], removed: Sequence[int] = (), *, whole: bool = False) -> str:
        """Every table has these rows, of one value each, and lost these keys. Returns the manifest's URL."""
        self._step += 10
        own = self._directory / f"g000001-{self._step:012d}"
        base = None if whole else self._base
        blocks = [(number, block(dict(rows), table.dim, removed)) for number, table in enumerate(self.tables)]
        save(own / manifest.TABLES, self.tables, [blocks], base and Path(base, manifest.TABLES))
        self._base = own
        written = Manifest(
            version=manifest.FORMAT_VERSION, generation=1, step=self._step, final=False, directory=own.name, rows={},
            parts=tuple(self._part(own, name, value) for name, value in self._tensors().items()),
            tables=f"{manifest.TABLES}/tables.json", base=base and base.name, clock=((1e9 + self._step, self._step),),
        )  # fmt: skip
        url, is_own = manifest.commit(str(self._directory), written)
        assert is_own
        return url

    def _tensors(self) -> dict[str, Any]:
        return {"dense": self._random.normal(size=self._dense, scale=0.3).astype(np.float32), **self._state}

    def _part(self, own: Path, tensor: str, value: Any) -> Part:
        path = own / f"{tensor}.0.npy"
        np.save(path, value)
        return Part(tensor, path.name, 0, 1, path.stat().st_size, manifest.checksum_of(path))
