"""An embedding whose table may be larger than the memory of a worker."""

from typing import Any

import keras
import tensorflow as tf

from afo.embedding.variable import keys_of
from afo.errors import ModelError
from afo.layers.lookup import active


@keras.saving.register_keras_serializable("afo")
class Embedding(keras.layers.Embedding):  # type: ignore[misc]  # Keras is untyped
    """`keras.layers.Embedding`, and exactly that unless a job of afo builds it.

    In a job its rows live on the parameter servers: a batch moves the different rows that it names and their
    gradients, and the layer has no weights. With an `input_dim` of None ids are any 64-bit integers or strings, and a
    row comes when its id is first met; the layer then works in a job alone. There it raises ModelError for what needs
    the whole table at every step (regularizer, constraint, LoRA, quantisation).
    """

    built: bool

    def __init__(self, input_dim: int | None, output_dim: int, *args: Any, **kwargs: Any) -> None:
        #: Whether the rows are asked of the job's servers. Before all else, for Keras may build the layer at once.
        self.is_remote = False
        matrix = kwargs.pop("weights", None) if active() is not None else None
        # Keras wants a number, and does nothing with it before the table is built.
        super().__init__(1 if input_dim is None else input_dim, output_dim, *args, **kwargs)
        self.input_dim = input_dim
        if matrix is not None:
            [values] = matrix if isinstance(matrix, list) and len(matrix) == 1 else [matrix]
            self.embeddings_initializer = keras.initializers.Constant(values)

    def build(self, input_shape: Any = None) -> None:
        """Creates the table, unless a job holds it."""
        if self.built or active() is None:
            if self.input_dim is None:
                raise ModelError(
                    f"embedding `{self.name}` has no `input_dim`, so its rows are on the parameter servers of a job;"
                    " give it one to use it elsewhere"
                )
            return super().build(input_shape)  # type: ignore[no-any-return]
        self._require_plain()
        self.is_remote = True
        self.built = True

    def call(self, inputs: Any) -> Any:
        """ids [...] → [..., output_dim]."""
        if not self.is_remote:
            return super().call(inputs)
        lookup = active()
        if lookup is None:
            raise ModelError(f"embedding `{self.name}` lives on parameter servers and was called outside of the job")
        return tf.cast(lookup(self, keys_of(tf.convert_to_tensor(inputs))), self.compute_dtype)

    def _require_plain(self) -> None:
        unfit = {
            "embeddings_regularizer": self.embeddings_regularizer,
            "embeddings_constraint": self.embeddings_constraint,
            "lora_rank": self.lora_rank,
            "quantization_config": self.quantization_config,
        }
        for option, value in unfit.items():
            if value is not None:
                raise ModelError(
                    f"embedding `{self.name}` has `{option}`, which takes the whole table at every step and is not"
                    " possible on parameter servers; leave it out (`activity_regularizer` works on the rows of a"
                    " batch), or use keras.layers.Embedding for a small table"
                )
