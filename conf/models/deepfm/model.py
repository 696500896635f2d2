"""DeepFM (Guo et al., 2017, arXiv:1703.04247) on Adult: a factorization machine and a deep network on one embedding.

python model.py DATA [EPOCHS]      # DATA holds train/*.tfrecord and test/*.tfrecord
"""

import sys

import keras
import tensorflow as tf
from keras import layers, ops

from afo.layers import Embedding

CATEGORICAL = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "gender",
               "native_country")  # fmt: skip
NUMERIC = {
    "age": [20, 25, 30, 35, 40, 45, 50, 55, 60, 65],
    "education_num": [4.5, 6.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5],
    "capital_gain": [1, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 10000, 14000, 20000],
    "capital_loss": [1, 1000, 1500, 1600, 1750, 1850, 1900, 2000, 2200, 2400, 3000],
    "hours_per_week": [10, 20, 30, 35, 39, 41, 45, 50, 55, 60, 70],
}


def build(dim=8, buckets=100, hidden_units="64,32"):
    """Every field becomes one id; numbers become the interval they lie in."""
    inputs = {name: keras.Input((1,), dtype="string", name=name) for name in CATEGORICAL}
    inputs |= {name: keras.Input((1,), name=name) for name in NUMERIC}
    ids = [layers.Hashing(buckets)(inputs[name]) for name in CATEGORICAL]
    ids += [layers.Discretization(boundaries)(inputs[name]) for name, boundaries in NUMERIC.items()]
    # One table for all fields: each has its own range of rows.
    ids = ops.concatenate([ops.cast(each, "int64") + field * buckets for field, each in enumerate(ids)], axis=1)
    rows = buckets * (len(CATEGORICAL) + len(NUMERIC))
    first_order = Embedding(rows, 1, name="first_order")(ids)
    fields = Embedding(rows, dim, name="fields")(ids)

    linear = ops.sum(first_order, axis=1)
    # The sum over all pairs of fields of their inner products, in linear time.
    square_of_sum = ops.square(ops.sum(fields, axis=1))
    sum_of_squares = ops.sum(ops.square(fields), axis=1)
    pairs = 0.5 * ops.sum(square_of_sum - sum_of_squares, axis=1, keepdims=True)

    deep = layers.Flatten()(fields)
    for units in hidden_units.split(","):
        deep = layers.Dense(int(units), activation="relu")(deep)
    deep = layers.Dense(1)(deep)

    model = keras.Model(inputs, layers.Activation("sigmoid")(linear + pairs + deep))
    model.compile(keras.optimizers.Adam(0.001), loss="binary_crossentropy")
    return model


def load(pattern):
    """Features and labels of all records of some files."""
    features = {name: tf.io.FixedLenFeature([1], tf.string, "") for name in CATEGORICAL}
    features |= {name: tf.io.FixedLenFeature([1], tf.float32, 0.0) for name in NUMERIC}
    features["income"] = tf.io.FixedLenFeature([1], tf.int64)
    records = list(tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))))
    parsed = tf.io.parse_example(records, features)
    return parsed, tf.cast(parsed.pop("income"), tf.float32)


def main(data, epochs=8, batch_size=256):
    model = build()
    model.fit(*load(f"{data}/train/*.tfrecord"), batch_size=batch_size, epochs=epochs, verbose=2)
    features, labels = load(f"{data}/test/*.tfrecord")
    auc = keras.metrics.AUC(num_thresholds=5000)
    auc.update_state(labels, model.predict(features, batch_size=4096, verbose=0))
    print(f"auc {float(auc.result()):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
