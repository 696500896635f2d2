"""A functional model of the features of `click_records` with a part that reads user and likes alone."""

import keras
from keras import layers, ops

from afo.layers import Embedding


class Rows(layers.Layer):
    """Gives back what it gets, and remembers of how many samples that was."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen, self.supports_masking = [], True

    def call(self, values):
        self.seen.append(values.shape[0])
        return values


def build():
    """The user's likes are a list with a mask, which the attention of a city reads; one table is of both sides."""
    inputs = {
        "user": keras.Input((1,), dtype="int64", name="user"),
        "liked": keras.Input((2,), dtype="int64", name="liked"),
        "city": keras.Input((1,), dtype="string", name="city"),
        "age": keras.Input((1,), name="age"),
    }
    shared = Embedding(8, 4, name="shared")
    user = Rows(name="rows_of_user")(layers.Flatten()(shared(inputs["user"] % 8)))
    user = layers.Dropout(0.5)(layers.Dense(4, activation="relu")(user))
    city = shared(layers.StringLookup(vocabulary=["Bonn", "Ulm", "Trier"])(inputs["city"]))
    likes = layers.Embedding(7, 4, mask_zero=True, embeddings_initializer="normal")(inputs["liked"] % 7)
    read = layers.Flatten()(layers.Attention()([city, Rows(name="rows_of_likes")(likes)]))
    item = Rows(name="rows_of_items")(ops.concatenate([layers.Flatten()(city), read, inputs["age"] / 50], axis=1))
    x = layers.Dense(8, activation="relu")(ops.concatenate([user, item], axis=1))
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
