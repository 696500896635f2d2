"""A model's steps in this process: its hash tables are here, its dense weights stay as they began."""

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from afo.data.schema import Schema
from afo.embedding import TableGroup
from afo.embedding.pooled_exchange import PooledExchange
from afo.job import Job
from afo.models.parser import RecordParser
from afo.trainable.model_protocol import Pulled

_numbers = itertools.count()


class Question(NamedTuple):
    """An exchange with the servers: what tables it is of, and what their answers are on the network."""

    is_pooled: bool
    tables: tuple[str, ...]
    wire: str


def _question(exchange: Any) -> Question:
    tables = tuple(exchange.by_table(exchange.values))
    return Question(isinstance(exchange, PooledExchange), tables, exchange.wire.name)


class InProcessTrainer:
    """Trains `model` on `servers` servers that are this process."""

    def __init__(self, model: Any, schema: Schema, job: Job, servers: int) -> None:
        self.model = model
        self.asked: list[Question] = []
        self._parser = RecordParser(schema, job.data)
        parameters = model.parameters(servers, 1)
        tables = parameters.embeddings.tables
        self.group = TableGroup(["/device:CPU:0"] * servers, f"near/{next(_numbers)}", tables=tables)
        self.group.create()
        generator = np.random.default_rng(1)
        self.vector = tf.constant(generator.normal(scale=0.3, size=parameters.dense.rows), tf.float32)
        state = tuple(tf.zeros(each.shape, each.dtype) for each in parameters.state)
        requests: list[Any] = []
        of_tables = SimpleNamespace(embeddings=self.group, tables=(), servers=servers)
        exchange: Any = SimpleNamespace(parameters=of_tables, ask=requests.append)

        def step(inputs: Any, number: Any) -> Any:
            requests.clear()
            pulled = Pulled(model.ask(inputs, exchange), self.vector, state, number)
            self.group.as_servers.pull(requests)
            computed = model.compute(inputs, pulled, exchange)
            self.asked = [_question(asked) for asked, _ in computed.embeddings]
            applied = [
                each for asked, values in computed.embeddings for each in asked.apply(values, step=number, schedule=1.0)
            ]
            with tf.control_dependencies(applied):
                return tf.identity(computed.loss)

        self._step = tf.function(step, autograph=False, reduce_retracing=True)
        self._encode = tf.function(lambda records: model.encode(self._parser(records), servers), autograph=False)

    def losses(self, batches: Sequence[Sequence[bytes]]) -> list[float]:
        """Of each batch, before it was applied."""
        found = []
        for number, records in enumerate(batches, 1):
            inputs = self._encode(tf.constant(records))
            found.append(float(self._step(inputs, tf.constant(number, tf.int64))))
        return found

    def operations(self, batch: Sequence[bytes]) -> list[Any]:
        """Those of a step that was traced on `batch`."""
        inputs = self._encode(tf.constant(batch))
        return list(self._step.get_concrete_function(inputs, tf.constant(1, tf.int64)).graph.get_operations())
