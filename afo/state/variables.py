"""A variable on a parameter server, shared by every client that names it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from afo.ops.handles import run_independently

#: Values read or written by one operation when whole variables move: 16 MiB of float32.
CHUNK_VALUES = 4 * 1024 * 1024
#: The process that asks the parameter servers, as they know it (`afo.state.server_connections.connect`).
CLIENT_DEVICE = "/job:worker/task:0/device:CPU:0"
#: The only one of a process that asks none.
_LOCAL_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
#: Whether variables lie in this process (`keep_here`).
_kept_here: list[bool] = []
#: The client by which it asks parameter servers of our own, if it does.
_asks: list[str] = []


def keep_here() -> None:
    """Have this process hold all variables itself, from now on: for a model that is tried without a cluster."""
    _kept_here[:] = [True]


def ask_servers(client: str) -> None:
    """Have this process ask parameter servers of our own, from now on, by its client of this name."""
    keep_here()
    _asks[:] = [client]


def asking_client() -> str:
    """The name of its client; empty where it asks TensorFlow's servers, or none."""
    return _asks[0] if _asks else ""


def server_devices(servers: int) -> tuple[str, ...]:
    """Devices of the parameter servers, in their order."""
    return tuple(_ps_device(server) for server in range(servers))


def client_device() -> str:
    """Device of the process that asks."""
    return _LOCAL_DEVICE if _kept_here else CLIENT_DEVICE


def _ps_device(server: int) -> str:
    return _LOCAL_DEVICE if _kept_here else f"/job:ps/task:{server}/device:CPU:0"


@dataclass(frozen=True)
class PsVariable:
    """A variable by name, for `shared_name` makes it one for all clients. Its first dimension is called rows.

    `handle()` must be called once per traced function: operations on one handle keep their order in the function.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    server: int

    @property
    def tensor(self) -> str:
        """Its name in a checkpoint."""
        return self.name.removeprefix("afo/")

    @property
    def device(self) -> str:
        """Where it lives."""
        return _ps_device(self.server)

    def handle(self) -> Any:
        """Its resource handle."""
        with tf.device(self.device):
            dtype = tf.as_dtype(self.dtype)
            return run_independently(tf.raw_ops.VarHandleOp(dtype=dtype, shape=self.shape, shared_name=self.name))

    @property
    def chunk_rows(self) -> int:
        """Rows that one message carries when the whole variable moves."""
        return max(1, CHUNK_VALUES // max(1, int(np.prod(self.shape[1:]))))


def read_value(handle: Any, dtype: str) -> Any:
    """The value of a small variable, where it lives."""
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(dtype))


def gather_rows(handle: Any, rows: Any, dtype: str = "float32") -> Any:
    """Rows of a variable; must be built under its device."""
    return tf.raw_ops.ResourceGather(resource=handle, indices=rows, dtype=tf.as_dtype(dtype))


def on_client(value: Any) -> Any:
    """`value` in this process: for what a function returns.

    TensorFlow would leave it on the server, and fetch it by an operation that has another name each time. The server
    keeps the kernel of each of them for as long as it lives: up to 3 KB a step (TensorFlow 2.21).
    """
    with tf.device(client_device()):
        return tf.identity(value)


@dataclass(frozen=True)
class VariableIo:
    """Whole variables between a parameter server and numpy, in bounded messages.

    Keep one for what is done again and again: each traces its functions once, and a server remembers every function
    that it was ever sent.
    """

    variable: PsVariable

    def assign(self, value: Any) -> None:
        """Create or replace a small variable."""
        self._assign(tf.constant(value, self.variable.dtype, self.variable.shape))

    def read(self) -> Any:
        """The value of a small variable as numpy array."""
        return self._read().numpy()

    def read_rows(self, rows: Sequence[int]) -> Any:
        """Some rows [n, …] of a variable as numpy array."""
        return self._gather(tf.constant(rows, tf.int64)).numpy()

    def chunks(self) -> Iterator[tuple[int, Any]]:
        """Pairs of first row and rows as numpy array, in order. The variable itself is never copied whole."""
        variable = self.variable
        for start in range(0, variable.shape[0], variable.chunk_rows):
            stop = min(start + variable.chunk_rows, variable.shape[0])
            yield start, self._slice(tf.constant(start, tf.int64), tf.constant(stop, tf.int64)).numpy()

    def write_rows(self, rows: Any, values: Any) -> None:
        """Overwrite rows [n] of the existing variable by values [n, …]."""
        self._scatter(tf.constant(rows, tf.int64), tf.constant(values, self.variable.dtype))

    @cached_property
    def _assign(self) -> Any:
        variable = self.variable

        def assign(content: Any) -> None:
            handle = variable.handle()
            with tf.device(variable.device):
                tf.raw_ops.AssignVariableOp(resource=handle, value=content)

        return _trace(assign, tf.TensorSpec(variable.shape, variable.dtype))

    @cached_property
    def _read(self) -> Any:
        variable = self.variable

        def read() -> Any:
            handle = variable.handle()
            with tf.device(variable.device):
                value = read_value(handle, variable.dtype)
            return on_client(value)

        return _trace(read)

    @cached_property
    def _gather(self) -> Any:
        variable = self.variable

        def gather(rows: Any) -> Any:
            handle = variable.handle()
            with tf.device(variable.device):
                value = gather_rows(handle, rows, variable.dtype)
            return on_client(value)

        return _trace(gather, tf.TensorSpec([None], tf.int64))

    @cached_property
    def _slice(self) -> Any:
        variable = self.variable

        def part(start: Any, stop: Any) -> Any:
            handle = variable.handle()
            with tf.device(variable.device):
                value = gather_rows(handle, tf.range(start, stop), variable.dtype)
            return on_client(value)

        return _trace(part, tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int64))

    @cached_property
    def _scatter(self) -> Any:
        variable = self.variable

        def scatter(rows: Any, values: Any) -> None:
            handle = variable.handle()
            with tf.device(variable.device):
                tf.raw_ops.ResourceScatterUpdate(resource=handle, indices=rows, updates=values)

        values = tf.TensorSpec([None, *variable.shape[1:]], variable.dtype)
        return _trace(scatter, tf.TensorSpec([None], tf.int64), values)


def _trace(function: Callable[..., Any], *signature: Any) -> Any:
    """Traced once and for all: such a function belongs to one variable, and TensorFlow need not warn of retracing."""
    return tf.function(function, autograph=False).get_concrete_function(*signature)
