"""The protocol of a trainable model: its parameters, its batches, its gradients. All else is the model's own."""

from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from afo.checkpoint.restore import CheckpointReader
from afo.checkpoint.tensor_map import Section
from afo.embedding.exchange import Exchange as TableExchange
from afo.embedding.pooled_exchange import PooledExchange
from afo.models.parser import Parsed
from afo.state.parameters import Parameters
from afo.state.step_exchange import Exchange, RowGradient
from afo.trainable.served.table_form import TRAINED, TableForm


class TableGradients(NamedTuple):
    """Gradients of rows that the native engine answered."""

    exchange: TableExchange | PooledExchange
    #: For each server, as `exchange.values`.
    values: tuple[Any, ...]


class Computed(NamedTuple):
    """What a model makes of a batch. Gradients of means are taken times `share_of_batch`."""

    #: Mean loss of the batch, a scalar, whatever its size.
    loss: Any
    #: At most one of each table.
    rows: tuple[RowGradient, ...]
    #: Gradient of the dense vector.
    vector: Any
    #: What the variables of `Parameters.state` grow by, in their order.
    added: tuple[Any, ...]
    #: Of hash tables; each table is in one of them at most.
    embeddings: tuple[TableGradients, ...] = ()
    #: By how much the dense vector changes apart from its gradient, or None; and rows, at most one of each table.
    moved: Any = None
    moved_rows: tuple[RowGradient, ...] = ()


class Pulled(NamedTuple):
    """What a step has of the servers before it computes."""

    #: What `Model.ask` returned.
    asked: Any
    #: All dense weights.
    vector: Any
    #: The values of `Parameters.state`, in their order.
    state: tuple[Any, ...]
    #: The updates that were applied before.
    step: Any


def share_of_batch(samples: Any, batch_size: int) -> Any:
    """The part of a whole batch that `samples`, [n, …], are: 1 unless a worker's input ended or had to wait.

    A step along the mean of 17 samples counts each of them 15 times as much as one along the mean of 256. Times this
    part, a gradient is the sum over the samples divided by what a whole batch would be divided by.
    """
    return tf.cast(tf.shape(samples)[0], tf.float32) / tf.constant(batch_size, tf.float32)


class UserItemModel(Protocol):
    """A local model that answers for one user and n items."""

    def probabilities(self, user: dict[str, Any], items: dict[str, Any]) -> Any:
        """The user's features, [1, values] each, and the items', [n, values] each → float32 [n, labels]."""


class LocalModel(Protocol):
    """A model out of a checkpoint in one process, without parameter servers. A `tf.Module`, so that it can be saved."""

    def load(self, reader: CheckpointReader) -> None:
        """Take the values of another checkpoint of the same model. Raises DataError if it is of another one."""

    def probabilities(self, features: dict[str, Any]) -> Any:
        """Features [B, values] each → float32 [B, labels]."""

    def for_one_user(self, user_features: frozenset[str]) -> UserItemModel:
        """It answers as this one does for features that are joined. It is a part of this one: saved with it, and of the
        values that this one has now."""

    def metrics(self, labels: Any, probabilities: Any) -> dict[str, float]:
        """Metrics of its own, of numpy arrays [n, labels], beside those that every model has."""


class Model(Protocol):
    """A model over the features of a schema; the same for any number of parameter servers.

    `encode`, `ask`, `compute` and `numbers` are called while a function is traced.
    """

    @property
    def labels(self) -> tuple[str, ...]:
        """What it predicts, in the order of `data.label`."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of it is allowed and probably not meant, a sentence each."""

    def parameters(self, servers: int, splits: int) -> Parameters:
        """Its variables on so many servers, in a job of so many training files."""

    def initialize(self, parameters: Parameters) -> None:
        """Create every variable with its first value."""

    def sections(self, parameters: Parameters) -> tuple[Section, ...]:
        """Which part of it is which range of which tensor: what another model can take over."""

    def encode(self, parsed: Parsed, servers: int) -> Any:
        """What of a batch can be done ahead, on the worker alone: a nest of tensors."""

    def rate(self, step: Any, first_step: Any, epochs: Any) -> Any:
        """What multiplies every rule's learning rate in the update that follows `step` updates: 1.0 or a scalar.

        `first_step`: the updates that the job began with; `epochs`, int64 [n], those of the batch's files.
        """

    def ask(self, inputs: Any, exchange: Exchange) -> Any:
        """Ask the servers for the rows of what `encode` made, before anything is computed; returns what `compute`
        finds in `Pulled.asked`."""

    def compute(self, inputs: Any, pulled: Pulled, exchange: Exchange) -> Computed:
        """Loss and gradients of what `encode` made. What cannot be asked before is asked of `exchange`."""

    def numbers(self, inputs: Any) -> dict[str, Any]:
        """The real numbers among the inputs by name of the feature, [B, …] each: what may not be finite."""

    def try_answers(self, inputs: Any, parameters: Parameters) -> None:
        """Answer a batch by the servers' values, and compute the metrics of its own.

        Raises ModelError for what an evaluation would fail with, or what is no probability.
        """

    def local(self, reader: CheckpointReader, form: TableForm = TRAINED) -> LocalModel:
        """The model as a checkpoint holds it, its tables in `form`.

        Raises DataError for a checkpoint of another model, or whose weights the form cannot hold.
        """
