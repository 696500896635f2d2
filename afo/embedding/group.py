"""Embedding tables that live on the same servers, so that one exchange serves all of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from afo.embedding.initializers import Initializer
from afo.embedding.optimizers import RowOptimizer
from afo.errors import SpecError
from afo.ops.library import load

#: Widest row, as `kMaxDim` of afo/core/table.h.
MAX_DIM = 4096
#: Shards of a table on a server: 2 to the power of this.
_SHARD_BITS = 4


class Table(NamedTuple):
    """What a table of a group is; its number in the group stands for it in the operations."""

    name: str
    dim: int
    optimizer: RowOptimizer
    initializer: Initializer


class TableGroup:
    """Tables whose keys are dealt out to `devices`, each an embedding server: this process, or parameter servers.

    A client that names the same group on the same devices shares its tables. A device may be there more than once: it
    is then so many servers. Not thread-safe while tables are added.
    """

    def __init__(self, devices: Sequence[str] = ("/device:CPU:0",), name: str = "afo/embeddings") -> None:
        self.devices = tuple(devices)
        self.name = name
        self.tables: list[Table] = []
        self._ops = load()

    @property
    def servers(self) -> int:
        """How many processes hold rows."""
        return len(self.devices)

    def add(self, table: Table) -> int:
        """Creates a table on every server; returns its number. Raises SpecError for a width out of range or a name
        that is taken."""
        if not 1 <= table.dim <= MAX_DIM:
            raise SpecError(f"embedding variable `{table.name}`: embedding_dim must be 1 to {MAX_DIM}, not {table.dim}")
        if any(each.name == table.name for each in self.tables):
            raise SpecError(f"there is an embedding variable `{table.name}` already; give this one another name")
        number = len(self.tables)
        for server, device in enumerate(self.devices):
            with tf.device(device):
                self._ops.afo_add_table(
                    self.handle(server),
                    number=number,
                    dim=table.dim,
                    rule=table.optimizer.rule,
                    optimizer=table.optimizer.numbers(),
                    distribution=table.initializer.distribution,
                    initializer=[table.initializer.first, table.initializer.second],
                    seed=table.initializer.seed,
                    shard_bits=_SHARD_BITS,
                )
        self.tables.append(table)
        return number

    def handle(self, server: int) -> Any:
        """The resource of one server. Operations on one handle keep their order within a function."""
        with tf.device(self.devices[server]):
            return self._ops.afo_embedding_tables(shared_name=f"{self.name}/{server}")

    def sizes(self) -> tuple[Any, Any]:
        """(keys, bytes), int64 [servers, tables] each."""
        numbers = list(range(len(self.tables)))
        found = []
        for server, device in enumerate(self.devices):
            with tf.device(device):
                found.append(self._ops.afo_table_sizes(self.handle(server), numbers=numbers))
        return np.stack([each.keys.numpy() for each in found]), np.stack([each.bytes.numpy() for each in found])

    def remove(self, number: int, keys: Any) -> int:
        """Removes rows, wherever they are; returns how many there were."""
        removed = 0
        for server, device in enumerate(self.devices):
            with tf.device(device):
                removed += int(self._ops.afo_remove_rows(self.handle(server), tf.cast(keys, tf.int64), number=number))
        return removed
