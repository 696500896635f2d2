"""DIN (Zhou et al., 2018, arXiv:1706.06978): a user's history, weighted by how much each item says of the one shown.

afo data behaviour DATA --train 300000
python model.py DATA [EPOCHS]      # DATA holds train/*.tfrecord and eval/*.tfrecord
"""

import sys

import keras
import tensorflow as tf
from keras import layers, ops

from afo.layers import Embedding

USERS, ITEMS, CATEGORIES = 2001, 1001, 41
#: Histories are cut or filled up with 0 to this length.
LENGTH = 20
IDS = ("user_id", "item_id", "category_id")
HISTORY = ("hist_item_ids", "hist_category_ids")
#: Of two epochs of 300,000 records in batches of 256; the learning rate falls to 0 in so many.
STEPS = 2344


class Attention(layers.Layer):
    """The history [B, L, d] summed by an activation unit's weights for the shown item [B, d]."""

    def __init__(self, hidden_units, **kwargs):
        super().__init__(**kwargs)
        self.hidden = [layers.Dense(units, activation="sigmoid") for units in hidden_units]
        self.score = layers.Dense(1)

    def call(self, item, history, there):
        item = ops.broadcast_to(ops.expand_dims(item, 1), ops.shape(history))
        x = ops.concatenate([item, history, item - history, item * history], axis=2)
        for layer in self.hidden:
            x = layer(x)
        # Not a softmax: the strength of an interest is kept.
        weights = self.score(x) * ops.expand_dims(ops.cast(there, "float32"), 2)
        return ops.sum(weights * history, axis=1)


def build(dim=8, attention_units=(32, 16), hidden_units=(64, 32)):
    inputs = {name: keras.Input((1,), dtype="int64", name=name) for name in IDS}
    inputs |= {name: keras.Input((LENGTH,), dtype="int64", name=name) for name in HISTORY}
    users = Embedding(USERS, dim, name="users")
    items = Embedding(ITEMS, dim, name="items")
    categories = Embedding(CATEGORIES, dim, name="categories")

    user = layers.Flatten()(users(inputs["user_id"]))
    item = ops.concatenate([items(inputs["item_id"]), categories(inputs["category_id"])], axis=2)[:, 0]
    history = [items(inputs["hist_item_ids"]), categories(inputs["hist_category_ids"])]
    there = ops.not_equal(inputs["hist_item_ids"], 0)
    interest = Attention(attention_units)(item, ops.concatenate(history, axis=2), there)

    x = ops.concatenate([user, item, interest, item * interest], axis=1)
    for units in hidden_units:
        x = layers.PReLU()(layers.Dense(units)(x))
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    rate = keras.optimizers.schedules.CosineDecay(0.01, STEPS)
    model.compile(keras.optimizers.Adam(rate), loss="binary_crossentropy")
    return model


def load(pattern):
    """Features and labels of all records of some files."""
    features = {name: tf.io.FixedLenFeature([1], tf.int64) for name in (*IDS, "click")}
    features |= {name: tf.io.RaggedFeature(tf.int64) for name in HISTORY}
    records = list(tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))))
    parsed = tf.io.parse_example(records, features)
    for name in HISTORY:
        parsed[name] = parsed[name].to_tensor(shape=(None, LENGTH))
    return parsed, tf.cast(parsed.pop("click"), tf.float32)


def main(data, epochs=2, batch_size=256):
    model = build()
    model.fit(*load(f"{data}/train/*.tfrecord"), batch_size=batch_size, epochs=epochs, verbose=2)
    features, labels = load(f"{data}/eval/*.tfrecord")
    auc = keras.metrics.AUC(num_thresholds=5000)
    auc.update_state(labels, model.predict(features, batch_size=4096, verbose=0))
    print(f"auc {float(auc.result()):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
