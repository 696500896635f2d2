"""AUC, log loss and calibration of SavedModels on held-out files, whoever wrote them: a line of JSON for each.

evaluate.py LABEL FILES MODEL_DIR…, FILES a glob of TFRecord files. TensorFlow alone serves, without afo's operations.
"""

import json
import sys

import numpy as np
import tensorflow as tf

from afo.data.model_metrics import by_label


def metrics(model_dir, label, files):
    """By name, of one model."""
    serve = tf.saved_model.load(model_dir).signatures["serving_default"]
    specs = {label: tf.io.FixedLenFeature([1], tf.int64)}
    labels, probabilities = [], []
    for records in tf.data.TFRecordDataset(files).batch(2048):
        probabilities.append(np.reshape(serve(examples=records)["probabilities"], [-1, 1]))
        labels.append(tf.io.parse_example(records, specs)[label].numpy())
    return by_label([label], np.concatenate(labels), np.concatenate(probabilities))


if __name__ == "__main__":
    for each in sys.argv[3:]:
        print(json.dumps(metrics(each, sys.argv[1], sorted(tf.io.gfile.glob(sys.argv[2])))), flush=True)
