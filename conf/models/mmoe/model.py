"""MMoE (Ma et al., 2018, doi:10.1145/3219819.3220007) on Adult: two questions share experts, each by its own gate.

Income above 50,000 dollars, and never married, as in the paper's census experiment; what else tells the marital status
is no feature.

    python model.py DATA [EPOCHS]      # DATA holds train/*.tfrecord and test/*.tfrecord
"""

import sys

import keras
import tensorflow as tf
from keras import layers, ops

from afo.layers import Embedding

CATEGORICAL = ("workclass", "education", "occupation", "race", "gender", "native_country")
NUMERIC = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
#: Of log(1 + x) of each of them over the training records.
MEANS, VARIANCES = (3.60, 2.38, 0.73, 0.35, 3.65), (0.13, 0.07, 6.03, 2.51, 0.16)
LABELS = ("income", "never_married")


class Experts(layers.Layer):
    """`count` dense layers side by side: [B, n] → [B, count, units]."""

    def __init__(self, count, units, **kwargs):
        super().__init__(**kwargs)
        self.count = count
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.count * self.units), name="kernel")
        self.bias = self.add_weight(shape=(self.count * self.units,), initializer="zeros", name="bias")

    def call(self, x):
        return ops.reshape(ops.relu(ops.matmul(x, self.kernel) + self.bias), (-1, self.count, self.units))


def build(dim=8, buckets=100, experts=6, units=32, tower=16):
    inputs = {name: keras.Input((1,), dtype="string", name=name) for name in CATEGORICAL}
    inputs |= {name: keras.Input((1,), name=name) for name in NUMERIC}
    ids = [layers.Hashing(buckets)(inputs[name]) + field * buckets for field, name in enumerate(CATEGORICAL)]
    embedded = Embedding(buckets * len(CATEGORICAL), dim, name="ids")(ops.concatenate(ids, axis=1))
    numbers = ops.log1p(ops.concatenate([inputs[name] for name in NUMERIC], axis=1))
    numbers = layers.Normalization(mean=MEANS, variance=VARIANCES)(numbers)
    x = ops.concatenate([layers.Flatten()(embedded), numbers], axis=1)

    answers = []
    shared = Experts(experts, units, name="experts")(x)
    for label in LABELS:
        gate = layers.Dense(experts, activation="softmax", name=f"{label}_gate")(x)
        mixed = ops.sum(ops.expand_dims(gate, 2) * shared, axis=1)
        hidden = layers.Dense(tower, activation="relu", name=f"{label}_tower")(mixed)
        answers.append(layers.Dense(1, activation="sigmoid", name=label)(hidden))
    model = keras.Model(inputs, answers)
    model.compile(keras.optimizers.Adam(0.003), loss=["binary_crossentropy"] * len(LABELS))
    return model


def load(pattern):
    """Features of all records of some files, and the labels one by one."""
    features = {name: tf.io.FixedLenFeature([1], tf.string, "") for name in CATEGORICAL}
    features |= {name: tf.io.FixedLenFeature([1], tf.float32, 0.0) for name in NUMERIC}
    features |= {name: tf.io.FixedLenFeature([1], tf.int64) for name in LABELS}
    records = list(tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))))
    parsed = tf.io.parse_example(records, features)
    return parsed, [tf.cast(parsed.pop(name), tf.float32) for name in LABELS]


def main(data, epochs=8, batch_size=256):
    model = build()
    model.fit(*load(f"{data}/train/*.tfrecord"), batch_size=batch_size, epochs=epochs, verbose=2)
    features, labels = load(f"{data}/test/*.tfrecord")
    for name, truth, answer in zip(LABELS, labels, model.predict(features, batch_size=4096, verbose=0), strict=True):
        auc = keras.metrics.AUC(num_thresholds=5000)
        auc.update_state(truth, answer)
        print(f"{name} auc {float(auc.result()):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
