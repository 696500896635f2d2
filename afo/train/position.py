"""How far each training file has been applied, kept beside the model, so that both always belong together."""

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from afo.models import wide_deep
from afo.train.parameters import Parameters
from afo.train.variables import gather_rows, ps_device, read_value

if TYPE_CHECKING:
    from afo.train.step import Prepared


class Position:
    """Builds the part of a step that reads and writes `positions`, `step` and `statistics`.

    Only the worker that holds a file's lease writes its row, so reading, changing and writing it in one step is safe.
    """

    def __init__(self, parameters: Parameters, batch: "Prepared") -> None:
        self._batch = batch
        self._handles = {variable.name: variable.handle() for variable in parameters.counters}
        self._parameters = parameters
        with tf.device(ps_device(0)):
            self._before = gather_rows(self._handle(parameters.positions), batch.files, "int64")
            seen = read_value(self._handle(parameters.statistics), "float64")
        self._own = wide_deep.batch_statistics(batch.dense)
        #: Of all samples applied so far and of this batch.
        self.statistics = seen + self._own

    def advance(self) -> tuple[Any, Any]:
        """Count the batch; returns the number of this step and the new positions [R, 3]."""
        after = self._after()
        with tf.device(ps_device(0)):
            tf.raw_ops.AssignAddVariableOp(resource=self._handle(self._parameters.statistics), value=self._own)
            tf.raw_ops.ResourceScatterUpdate(
                resource=self._handle(self._parameters.positions), indices=self._batch.files, updates=after
            )
            step = self._handle(self._parameters.step)
            tf.raw_ops.AssignAddVariableOp(resource=step, value=tf.constant(1, tf.int64))
            number = read_value(step, "int64")
        return tf.identity(number), after

    def _after(self) -> Any:
        """Positions after the batch; a row of an earlier epoch begins anew."""
        batch, before = self._batch, self._before
        goes_on = tf.cast(before[:, 0] == batch.epochs, tf.int64)
        count = before[:, 1] * goes_on + batch.counts
        xor = tf.bitwise.bitwise_xor(before[:, 2] * goes_on, batch.xors)
        return tf.stack([batch.epochs, count, xor], axis=1)

    def _handle(self, variable: Any) -> Any:
        return self._handles[variable.name]
