"""The SavedModel: what serves the trained model with plain TensorFlow."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import tensorflow as tf

from afo import storage
from afo.models.records import RecordParser
from afo.train import exported
from afo.train.exported import Exported
from afo.train.model import LocalModel


def export(
    model: LocalModel, labels: tuple[str, ...], parser: RecordParser, url: str, scratch: Path, source: Exported
) -> None:
    """Write the SavedModel to `url`, replacing one that is there.

    Signatures: `serving_default` takes `examples` (string [B], serialized tf.Example), `predict` takes the features by
    name ([B, values] each). Both give `probabilities`: [B] of one label; of several [B, labels], and beside it [B] by
    the name of each label. The file `saved_model.pb` is uploaded last; `source` goes with it (`afo.train.exported`).
    """
    local = scratch / "export"
    shutil.rmtree(local, ignore_errors=True)
    tf.saved_model.save(model, str(local), signatures=_signatures(model, labels, parser))
    about = local.joinpath(*exported.FILE)
    about.parent.mkdir(parents=True, exist_ok=True)
    about.write_bytes(msgspec.json.encode(source))
    storage.delete(url, recursive=True)
    paths = [path for path in sorted(local.rglob("*")) if path.is_file()]
    for path in sorted(paths, key=lambda each: each.name == "saved_model.pb"):
        storage.upload(str(path), storage.join(url, *path.relative_to(local).parts))
    shutil.rmtree(local)


def _signatures(model: LocalModel, labels: tuple[str, ...], parser: RecordParser) -> dict[str, Any]:
    def probabilities(features: dict[str, Any]) -> dict[str, Any]:
        found = model.probabilities(features)
        if len(labels) == 1:
            return {"probabilities": found[:, 0]}
        return {**dict(zip(labels, tf.unstack(found, axis=1), strict=True)), "probabilities": found}

    def from_examples(examples: Any) -> dict[str, Any]:
        return probabilities(parser.inputs(examples))

    def from_features(**features: Any) -> dict[str, Any]:
        return probabilities(features)

    examples = tf.TensorSpec([None], tf.string, name="examples")
    return {
        "serving_default": tf.function(from_examples, autograph=False).get_concrete_function(examples),
        "predict": tf.function(from_features, autograph=False).get_concrete_function(**parser.specs),
    }
