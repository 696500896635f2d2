"""DLRM (Naumov et al., 2019, arXiv:1906.00091) on Adult: numbers and ids meet in all pairwise inner products.

python model.py DATA [EPOCHS]      # DATA holds train/*.tfrecord and test/*.tfrecord
"""

import sys

import keras
import tensorflow as tf
from keras import layers, ops

from afo.layers import Embedding

#: Rows of each feature's table.
TABLES = {
    "workclass": 50,
    "education": 50,
    "marital_status": 50,
    "occupation": 100,
    "relationship": 50,
    "race": 20,
    "gender": 10,
    "native_country": 200,
}
NUMERIC = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
#: Of log(1 + x) of each of them over the training records.
MEANS, VARIANCES = (3.60, 2.38, 0.73, 0.35, 3.65), (0.13, 0.07, 6.03, 2.51, 0.16)
#: Of eight epochs in batches of 256; the learning rate falls to 0 in so many.
STEPS = 1018


def mlp(x, units, last):
    for size in units[:-1]:
        x = layers.Dense(size, activation="relu")(x)
    return layers.Dense(units[-1], activation=last)(x)


def build(dim=8):
    inputs = {name: keras.Input((1,), name=name) for name in NUMERIC}
    inputs |= {name: keras.Input((1,), dtype="string", name=name) for name in TABLES}
    numbers = ops.log1p(ops.concatenate([inputs[name] for name in NUMERIC], axis=1))
    numbers = layers.Normalization(mean=MEANS, variance=VARIANCES)(numbers)
    bottom = mlp(numbers, (64, 32, dim), last="relu")
    vectors = [ops.expand_dims(bottom, 1)]
    for name, rows in TABLES.items():
        vectors.append(Embedding(rows, dim, name=f"table_{name}")(layers.Hashing(rows)(inputs[name])))

    stacked = ops.concatenate(vectors, axis=1)
    products = ops.matmul(stacked, ops.transpose(stacked, (0, 2, 1)))
    count = len(vectors)
    below = [row * count + column for row in range(count) for column in range(row)]
    pairs = ops.take(ops.reshape(products, (-1, count * count)), below, axis=1)

    top = mlp(ops.concatenate([bottom, pairs], axis=1), (64, 32, 1), last="sigmoid")
    model = keras.Model(inputs, top)
    rate = keras.optimizers.schedules.CosineDecay(0.003, STEPS)
    model.compile(keras.optimizers.Adam(rate), loss="binary_crossentropy")
    return model


def load(pattern):
    """Features and labels of all records of some files."""
    features = {name: tf.io.FixedLenFeature([1], tf.string, "") for name in TABLES}
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
