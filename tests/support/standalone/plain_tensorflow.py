"""Serves a SavedModel with TensorFlow and nothing of afo: prints the AUC on TFRecord files as JSON.

python plain_tensorflow.py MODEL_DIR LABEL FILE…
"""

import json
import sys

import numpy as np
import tensorflow as tf


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Area under the ROC curve by ranks (Mann and Whitney, 1947), ties sharing their mean rank."""
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    positives = int(labels.sum())
    wins = ranks[labels == 1].sum() - positives * (positives + 1) / 2
    return float(wins / (positives * (len(labels) - positives)))


def main(model_dir: str, label: str, files: list[str]) -> None:
    serve = tf.saved_model.load(model_dir).signatures["serving_default"]
    wanted = {label: tf.io.FixedLenFeature([], tf.int64)}
    labels, scores = [], []
    for records in tf.data.TFRecordDataset(files).batch(2048):
        scores.append(serve(examples=records)["probabilities"].numpy())
        labels.append(tf.io.parse_example(records, wanted)[label].numpy())
    every = np.concatenate(labels)
    found = {"auc": auc(every, np.concatenate(scores)), "samples": len(every)}
    print(json.dumps({**found, "afo": [name for name in sys.modules if name.partition(".")[0].startswith("afo")]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
