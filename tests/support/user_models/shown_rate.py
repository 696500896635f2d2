"""A model that shows its learning rate: every step moves its one weight by the rate of that step."""

import keras
from keras import layers, ops


def build():
    age = keras.Input((1,), name="age")
    # Zero at first; whatever the records, the gradient of the loss is 1.
    weight = layers.Dense(1, use_bias=False, kernel_initializer="zeros")(ops.ones_like(age))
    model = keras.Model({"age": age}, weight)
    model.compile(keras.optimizers.SGD(1.0), loss=lambda truth, answer: answer)
    return model
