"""The AUC of a SavedModel on the records of `click_records`, in a process with TensorFlow and no Python of ours."""

import subprocess
import sys
from pathlib import Path

SERVE = """
import glob, sys
import tensorflow as tf
for library in sys.argv[3:]:
    tf.load_op_library(library)
model = tf.saved_model.load(sys.argv[1])
files = tf.data.TFRecordDataset(sorted(glob.glob(sys.argv[2])))
records = list(files.as_numpy_iterator())
scores = model.signatures["serving_default"](examples=tf.constant(records))["probabilities"].numpy()
features = {
    "user": tf.io.FixedLenFeature([1], tf.int64), "city": tf.io.FixedLenFeature([1], tf.string),
    "liked": tf.io.FixedLenFeature([2], tf.int64), "age": tf.io.FixedLenFeature([1], tf.float32),
}
by_feature = model.signatures["predict"](**tf.io.parse_example(records, features))["probabilities"].numpy()
assert (scores == by_feature).all()
label = tf.io.parse_example(records, {"label": tf.io.FixedLenFeature([], tf.int64)})["label"].numpy().astype(bool)
higher = scores[label][:, None] - scores[~label][None, :]
assert "afo" not in sys.modules
print(((higher > 0) + 0.5 * (higher == 0)).mean())
"""


def served_auc(export: Path, data: Path, *libraries: Path) -> float:
    """`data` holds files `eval-*`; `libraries` of operations are loaded first."""
    command = [sys.executable, "-I", "-c", SERVE, str(export), f"{data}/eval-*", *map(str, libraries)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)
