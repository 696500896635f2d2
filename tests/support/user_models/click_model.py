"""Models of a user over the records of `click_records`, written as if there were no afo but for one import."""

import keras
import tensorflow as tf
from keras import layers, ops

from afo.layers import Embedding


def build(units=8, dim=4):
    """Functional, not compiled; one table is asked twice, and batch normalisation has a state of its own."""
    inputs = {
        "user": keras.Input((1,), dtype="int64", name="user"),
        "city": keras.Input((1,), dtype="string", name="city"),
        "liked": keras.Input((2,), dtype="int64", name="liked"),
        "age": keras.Input((1,), name="age"),
    }
    items = Embedding(500, dim, name="items")
    cities = Embedding(8, dim, embeddings_initializer="glorot_uniform", name="cities")
    user = items(layers.Hashing(500)(inputs["user"]))
    liked = items(inputs["liked"])
    city = cities(layers.StringLookup(vocabulary=["Bonn", "Ulm", "Trier", "Köln"])(inputs["city"]))
    x = ops.concatenate([layers.Flatten()(each) for each in (user, liked, city)], axis=1)
    x = ops.concatenate([x, layers.BatchNormalization(momentum=0.9)(inputs["age"])], axis=1)
    x = layers.Dropout(0.1)(layers.Dense(units, activation="relu")(x))
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


class Module(tf.Module):
    """Plain TensorFlow: log odds out of an embedding, a weight and a layer of Keras."""

    def __init__(self, features):
        super().__init__()
        self.names = sorted(features)
        self.cities = Embedding(100, 1)
        self.slope = tf.Variable([0.0], name="slope")
        self.out = layers.Dense(1)

    def __call__(self, features):
        ids = tf.strings.to_hash_bucket_fast(features["city"], 100)
        age = (features["age"] - 45) / 20
        return self.cities(ids)[:, 0] + self.slope * age + self.out(age)


class Contrary(Module):
    """Asks for other ids in training than without, and for none at random."""

    def __call__(self, features, training=False):
        user = features["user"] + (1 if training else 0)
        return self.cities(user % 100)[:, 0] + self.slope * features["age"]


def build_contrary(features):
    return Contrary(features)


def build_module(features):
    return Module(features)


def build_compiled():
    """Nothing in it is left to chance but kernels, which follow the seed; the loss is Keras' own."""
    inputs = {
        "user": keras.Input((1,), dtype="int64", name="user"),
        "liked": keras.Input((2,), dtype="int64", name="liked"),
        "age": keras.Input((1,), name="age"),
    }
    items = Embedding(500, 3, embeddings_initializer=keras.initializers.Constant(0.1), name="items")
    ids = ops.concatenate([layers.Hashing(500)(inputs["user"]), inputs["liked"]], axis=1)
    # The first ids once more, so that rows get gradients of two calls.
    x = ops.concatenate([layers.Flatten()(items(ids)), layers.Flatten()(items(inputs["liked"]))], axis=1)
    x = ops.concatenate([x, layers.BatchNormalization(momentum=0.8)(inputs["age"])], axis=1)
    x = layers.Dense(6, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01))(x)
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    # Not AdaGrad: of a row that a batch names twice Keras adds the squares of both gradients, afo squares their sum.
    model.compile(keras.optimizers.SGD(0.004), loss="binary_crossentropy")
    return model
