"""Versions of a model, each with what changed since another, and the scores that each answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from afo.data.example import encode
from afo.data.io.tfrecord import read_records
from afo.serving import Processor
from checkpoint_chain import CheckpointChain
from trained_model import RECORDS, TrainedModel


class Answered(NamedTuple):
    """A version, and its scores of the records."""

    number: int
    url: str
    scores: Any


class ExportedVersions:
    """A model whose checkpoints are written one after the other, and exported into `base_path`."""

    def __init__(self, directory: Path) -> None:
        self.model = TrainedModel(directory, directory / "schema.yaml", "hashed")
        self.chain = CheckpointChain(directory / "checkpoints", self.model.parts.model)
        self.base_path, self._scratch = directory / "ctr", directory / "scratch"
        self.records = list(read_records(str(self.model.records)))

    def write(self, manifest: str, *, tables: Any = "native", **options: Any) -> Any:
        """The next version, of a checkpoint. `options`: of `Versions`."""
        from afo.checkpoint.restore import CheckpointReader
        from afo.train.exports.incremental_export import Versions, export_version

        with CheckpointReader(manifest, self._scratch) as reader:
            versions = Versions(str(self.base_path), **options)
            return export_version(self.model.parts, reader, versions, self._scratch, "float32", tables).version

    def export(self, rows: Mapping[int, float], removed: Sequence[int] = ()) -> Answered:
        """The next checkpoint, and its version."""
        written = self.write(self.chain.save(rows, removed))
        with Processor(written.url) as model:
            return Answered(written.number, written.url, model.predict({"examples": self.records})["probabilities"])

    def scores_of_checkpoint(self, manifest: str) -> Any:
        """What the model of the evaluation makes of the records."""
        import tensorflow as tf

        from afo.checkpoint.restore import CheckpointReader

        features = self.model.parts.parser(tf.constant([encode(record) for record in RECORDS])).features
        with CheckpointReader(manifest, self._scratch) as reader:
            return self.model.parts.model.local(reader).probabilities(features).numpy()[:, 0]
