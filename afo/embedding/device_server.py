"""A TensorFlow server, or this process, that holds tables: what is asked of it outside of a training step."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import tensorflow as tf

from afo.embedding.stores import OperationStore, Store
from afo.ops.handles import run_independently
from afo.ops.library import load
from afo.tables import desk


class DeviceServer:
    """See `afo.embedding.stores.Server`.

    Each question is traced once: a server keeps every function that it is ever sent. What it answers is brought to the
    client inside of the function; TensorFlow would else fetch it by operations that the server keeps as well.
    """

    def __init__(self, device: str, shared_name: str, client: str) -> None:
        """`shared_name`: of its store. `client`: the device of this process."""
        self._device, self._shared_name, self._client = device, shared_name, client
        self._operations = load()

    def handle(self) -> Any:
        """The resource. Operations on one handle keep their order within a function."""
        with tf.device(self._device):
            return run_independently(self._operations.afo_embedding_tables(shared_name=self._shared_name))

    def store(self) -> Store:
        """On a handle of its own."""
        return OperationStore(self._operations, self.handle())

    def trace(self, question: Callable[..., Any], *signature: Any) -> Callable[..., Any]:
        """Done on the server, its answer brought home; traced for good."""

        def call(*given: Any) -> Any:
            with tf.device(self._device):
                answer = question(self.store(), *given)
            # An operation without outputs is itself what a graph has of it.
            if answer is None or isinstance(answer, tf.Operation):
                return None
            with tf.device(self._client):
                return tf.nest.map_structure(tf.identity, answer)

        traced: Callable[..., Any] = tf.function(call, autograph=False).get_concrete_function(*signature)
        return traced

    def ask_desk(self, asker: str, request: bytes) -> bytes:
        """In this process somebody has to be at the desk meanwhile."""
        with desk.attended() if self._device == self._client else nullcontext():
            return bytes(self._ask(tf.constant(asker), tf.constant(request)).numpy())

    @cached_property
    def _ask(self) -> Any:
        def call(asker: Any, request: Any) -> Any:
            with tf.device(self._device):
                answer = self._operations.afo_ask_desk(self.handle(), asker, request)
            with tf.device(self._client):
                return tf.identity(answer)

        text = tf.TensorSpec([], tf.string)
        return tf.function(call, autograph=False).get_concrete_function(text, text)
