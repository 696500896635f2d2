"""An embedding whose table may be larger than the memory of a worker."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args

import keras
import msgspec
import tensorflow as tf
from msgspec.structs import asdict

from afo.embedding.variable import keys_of
from afo.errors import ModelError, SpecError
from afo.formats.units import parse_quantity
from afo.job import Eviction, Filter, Pooling, ValueDtype, Wire
from afo.layers.layer_lookup import active, pool
from afo.layers.row_constraints import require_by_row, require_summed

Combiner = Literal["mean", "sum", "sqrtn"]
_Policy = TypeVar("_Policy", Filter, Eviction)
#: Options that are words, and which.
_ALLOWED = {"combiner": Combiner, "pooling": Pooling, "wire": Wire, "value_dtype": ValueDtype}


@keras.saving.register_keras_serializable("afo")
class Embedding(keras.layers.Embedding):  # type: ignore[misc]  # Keras is untyped
    """`keras.layers.Embedding`, and exactly that unless a job of afo builds it or it has a `combiner`.

    In a job its rows live on the parameter servers: a batch moves the different rows that it names and their
    gradients, and the layer has no weights. With an `input_dim` of None ids are any 64-bit integers or strings, and a
    row comes when its id is first met; the layer then works in a job alone. A regularizer or constraint holds for the
    rows that a batch names; ModelError is raised for one that needs the others, and for LoRA and quantisation. A matrix
    (`weights`, `set_weights`) is what a table begins with; of a layer that is not `trainable` the rows stay as they
    begin.

    combiner  `mean`, `sum` or `sqrtn`: ids [B, n] give one row a sample, [B, output_dim], as in TensorFlow's
              `embedding_lookup_sparse`; called with `weights` [B, n], weighted. With `mask_zero` the ids 0 and '' do
              not count.
    pooling   where a job sums these rows, in place of the job file's `model.embedding.pooling`
    wire      what rows and gradients are on the network, in place of `model.embedding.wire`
    value_dtype  what rows are in the servers' memory, in place of `model.embedding.value_dtype`
    filter    `afo.embedding.Filter`: which ids get a row, in place of `model.embedding.filter`
    evict     `afo.embedding.Eviction`: which rows go at a checkpoint, in place of `model.embedding.evict`; times in
              seconds or as '14d'

    The last five are for hash tables, and change nothing outside of a job.
    """

    built: bool

    def __init__(
        self, input_dim: int | None, output_dim: int, *args: Any, combiner: Combiner | None = None,
        pooling: Pooling | None = None, wire: Wire | None = None, filter: Filter | Mapping[str, Any] | None = None,
        evict: Eviction | Mapping[str, Any] | None = None, value_dtype: ValueDtype | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        #: Whether the rows are asked of the job's servers. Before all else, for Keras may build the layer at once.
        self.is_remote = False
        self.combiner, self.pooling, self.wire, self.value_dtype = combiner, pooling, wire, value_dtype
        matrix = kwargs.pop("weights", None) if active() is not None else None
        # Keras wants a number, and does nothing with it before the table is built.
        super().__init__(1 if input_dim is None else input_dim, output_dim, *args, **kwargs)
        self.input_dim = input_dim
        self._check_options()
        self._policies = _policy(filter, Filter, self.name), _policy(evict, Eviction, self.name)
        if matrix is not None:
            [values] = matrix if isinstance(matrix, list) and len(matrix) == 1 else [matrix]
            self.embeddings_initializer = keras.initializers.Constant(values)

    @property
    def filter(self) -> Filter | None:
        """Which ids get a row; None: as the job says."""
        return self._policies[0]

    @property
    def evict(self) -> Eviction | None:
        """Which rows go; None: as the job says."""
        return self._policies[1]

    def build(self, input_shape: Any = None) -> None:
        """Creates the table, unless a job holds it."""
        if self.built or active() is None:
            if self.input_dim is None:
                raise ModelError(
                    f"embedding `{self.name}` has no `input_dim`, so its rows are on the parameter servers of a job;"
                    " give it one to use it elsewhere"
                )
            return super().build(input_shape)  # type: ignore[no-any-return]
        self._require_by_row()
        self.is_remote = True
        self.built = True

    def set_weights(self, weights: Any) -> None:
        """As Keras'; in a job, whose rows are not here, the matrix is what the table begins with."""
        if not self.is_remote:
            return super().set_weights(weights)  # type: ignore[no-any-return]
        shapes = [tuple(getattr(array, "shape", ())) for array in weights]
        if shapes != [(self.input_dim, self.output_dim)]:
            raise ModelError(
                f"embedding `{self.name}` is given weights of {shapes}; it takes one matrix of"
                f" {(self.input_dim, self.output_dim)}"
            )
        self.embeddings_initializer = keras.initializers.Constant(weights[0])

    def call(self, inputs: Any, weights: Any = None) -> Any:
        """ids [...] → [..., output_dim], or, with a combiner, ids [B, n] → [B, output_dim]."""
        if self.combiner is not None:
            return self._pool(inputs, weights)
        if weights is not None:
            raise ModelError(f"embedding `{self.name}` is called with weights and has no `combiner` to use them")
        if not self.is_remote:
            return super().call(inputs)
        return tf.cast(self._lookup(self, keys_of(tf.convert_to_tensor(inputs))), self.compute_dtype)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """As Keras'; a combiner leaves nothing to mask."""
        return None if self.combiner is not None else super().compute_mask(inputs, mask)

    def compute_output_shape(self, input_shape: Any, weights_shape: Any = None) -> Any:
        """As Keras'; of a combiner [B, output_dim]."""
        return (input_shape[0], self.output_dim) if self.combiner is not None else (*input_shape, self.output_dim)

    def compute_output_spec(self, inputs: Any, weights: Any = None) -> Any:
        """What `call` returns."""
        if self.combiner is None and weights is None:
            return super().compute_output_spec(inputs)
        self._check_ids(inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """As Keras', with the options of this class that are given."""
        own: dict[str, Any] = {name: getattr(self, name) for name in _ALLOWED}
        own |= {"filter": self.filter and asdict(self.filter), "evict": self.evict and asdict(self.evict)}
        config: dict[str, Any] = super().get_config()
        return config | {name: value for name, value in own.items() if value is not None}

    @property
    def is_regularized(self) -> bool:
        """Whether the rows of a batch add to its loss in a job."""
        return self.is_remote and self.trainable and self.embeddings_regularizer is not None

    @property
    def is_bounded(self) -> bool:
        """Whether the rows have a constraint in a job."""
        return self.is_remote and self.trainable and self.embeddings_constraint is not None

    def constrain(self, rows: Any, step: Any) -> Any:
        """Rows [n, output_dim] after `step` updates: Keras constrains after each, so first values stay as they are."""
        if not self.is_bounded:
            return rows
        return tf.where(step > 0, tf.convert_to_tensor(self.embeddings_constraint(rows)), rows)

    def _get_own_losses(self) -> list[Any]:
        """As Keras', which asks its own weights itself, and what the regularizer says of the rows of a batch."""
        losses: list[Any] = super()._get_own_losses()
        lookup = active()
        if lookup is not None and self.is_regularized:
            losses.append(self.embeddings_regularizer(lookup.distinct(self)))
        return losses

    @property
    def _lookup(self) -> Any:
        lookup = active()
        if lookup is None:
            raise ModelError(f"embedding `{self.name}` lives on parameter servers and was called outside of the job")
        return lookup

    def _pool(self, inputs: Any, weights: Any) -> Any:
        ids = tf.convert_to_tensor(inputs)
        self._check_ids(ids)
        counts = tf.not_equal(ids, "" if ids.dtype == tf.string else 0) if self.mask_zero else None
        weights = None if weights is None else tf.ensure_shape(tf.cast(weights, tf.float32), ids.shape)
        if not self.is_remote:
            return pool(super().call(ids), str(self.combiner), counts, weights)
        return tf.cast(self._lookup.pool(self, keys_of(ids), counts, weights), self.compute_dtype)

    def _check_ids(self, ids: Any) -> None:
        if len(ids.shape) != 2:
            raise ModelError(f"embedding `{self.name}` has a combiner: its ids must be [batch, n], and are {ids.shape}")

    def _check_options(self) -> None:
        for option, kind in _ALLOWED.items():
            value = getattr(self, option)
            if value is not None and value not in get_args(kind):
                words = ", ".join(get_args(kind))
                raise ModelError(f"embedding `{self.name}`: `{option}` is {value!r}; allowed are {words}")
        if self.combiner is None and self.pooling is not None:
            raise ModelError(f"embedding `{self.name}` has `pooling` and no `combiner` that says what of the rows")

    def _require_by_row(self) -> None:
        for option in ("lora_rank", "quantization_config"):
            if getattr(self, option) is not None:
                raise ModelError(
                    f"embedding `{self.name}` has `{option}`, which takes the whole table at every step and is not"
                    " possible on parameter servers; leave it out, or use keras.layers.Embedding for a small table"
                )
        if self.embeddings_regularizer is not None:
            require_summed(self.embeddings_regularizer, self.name, self.output_dim)
        if self.embeddings_constraint is not None:
            require_by_row(self.embeddings_constraint, self.name, self.output_dim)


def _policy(given: _Policy | Mapping[str, Any] | None, kind: type[_Policy], layer: str) -> _Policy | None:
    """As an object, also of a mapping, which takes what the job file does. Raises ModelError for anything else."""
    if given is None:
        return None
    where = f"embedding `{layer}`: {'filter' if kind is Filter else 'evict'}"
    if not isinstance(given, Mapping | kind):
        raise ModelError(f"{where} is {given!r}; give it afo.embedding.{kind.__name__} or a mapping of its fields")
    fields = given if isinstance(given, Mapping) else asdict(given)
    try:
        return msgspec.convert(dict(fields), kind, dec_hook=parse_quantity)
    except (msgspec.ValidationError, SpecError) as error:
        raise ModelError(f"{where}: {error}; its fields are {', '.join(kind.__struct_fields__)}") from error
