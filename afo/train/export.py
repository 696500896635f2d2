"""The SavedModel: what serves the trained model with plain TensorFlow."""

import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from afo import storage
from afo.models.records import RecordParser
from afo.train.local_model import LocalModel


def export(model: LocalModel, parser: RecordParser, url: str, scratch: Path) -> None:
    """Write the SavedModel to `url`, replacing one that is there.

    Signatures: `serving_default` takes `examples` (string [B], serialized tf.Example), `predict` takes the features by
    name ([B, values] each); both give `probabilities` [B]. The file `saved_model.pb` is uploaded last.
    """
    local = scratch / "export"
    shutil.rmtree(local, ignore_errors=True)
    tf.saved_model.save(model, str(local), signatures=_signatures(model, parser))
    storage.delete(url, recursive=True)
    paths = [path for path in sorted(local.rglob("*")) if path.is_file()]
    for path in sorted(paths, key=lambda each: each.name == "saved_model.pb"):
        storage.upload(str(path), storage.join(url, *path.relative_to(local).parts))
    shutil.rmtree(local)


def _signatures(model: LocalModel, parser: RecordParser) -> dict[str, Any]:
    specs = {
        name: tf.TensorSpec([None, feature.shape[0]], feature.dtype, name=name)
        for name, feature in parser.features.items()
    }

    def probabilities(features: dict[str, Any]) -> dict[str, Any]:
        return {"probabilities": tf.sigmoid(model.log_odds(features))}

    def from_examples(examples: Any) -> dict[str, Any]:
        return probabilities(tf.io.parse_example(examples, parser.features))

    def from_features(**features: Any) -> dict[str, Any]:
        return probabilities(features)

    examples = tf.TensorSpec([None], tf.string, name="examples")
    return {
        "serving_default": tf.function(from_examples, autograph=False).get_concrete_function(examples),
        "predict": tf.function(from_features, autograph=False).get_concrete_function(**specs),
    }
