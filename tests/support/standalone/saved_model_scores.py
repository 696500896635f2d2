"""Serves a SavedModel with TensorFlow, an operations' library if one is named, and nothing of afo.

python saved_model_scores.py LOADER MODEL_DIR RECORDS OUTPUT [LIBRARY]: the probabilities of a TFRecord file's
records, as a numpy file. LOADER: `functions`, TensorFlow 2's, or `session`, which runs initializers and graph as
TensorFlow Serving does.
"""

import sys

import numpy as np
import tensorflow as tf


def by_functions(model_dir: str, examples: list[bytes]) -> np.ndarray:
    model = tf.saved_model.load(model_dir)  # native tables go with it
    return model.signatures["serving_default"](examples=tf.constant(examples))["probabilities"].numpy()


def by_session(model_dir: str, examples: list[bytes]) -> np.ndarray:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], model_dir).signature_def["serving_default"]
        return session.run(signature.outputs["probabilities"].name, {signature.inputs["examples"].name: examples})


def beside_another(model_dir: str, examples: list[bytes]) -> np.ndarray:
    model = tf.saved_model.load(model_dir)
    other = tf.saved_model.load(f"{model_dir}-other")  # which stays while the first one serves
    served = model.signatures["serving_default"](examples=tf.constant(examples))["probabilities"].numpy()
    assert "serving_default" in other.signatures
    return served


def refused(model_dir: str, examples: list[bytes]) -> np.ndarray:
    model = tf.saved_model.load(model_dir)
    try:
        model.signatures["serving_default"](examples=tf.constant(examples))
    except tf.errors.InvalidArgumentError as error:
        sys.exit(f"refused: {error.message}")
    raise AssertionError("served")


LOADERS = {"refused": refused, "beside": beside_another, "functions": by_functions, "session": by_session}


def main(loader: str, model_dir: str, records: str, output: str, *libraries: str) -> None:
    for library in libraries:
        tf.load_op_library(library)
    served = LOADERS[loader](model_dir, list(tf.data.TFRecordDataset(records).as_numpy_iterator()))
    ours = [name for name in sys.modules if name.partition(".")[0].startswith("afo")]
    if ours:
        sys.exit(f"{ours} are imported")
    np.save(output, served)


if __name__ == "__main__":
    main(*sys.argv[1:])
