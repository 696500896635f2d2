"""Embedding tables that live on the same servers, so that one exchange serves all of them."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from afo.embedding.device_server import DeviceServer
from afo.embedding.plus_server import PlusServers
from afo.embedding.pull_push import Servers, servers_of
from afo.embedding.server_tables import ServerTables, Table
from afo.embedding.stores import Server, Store
from afo.errors import SpecError
from afo.job import Eviction
from afo.job.section import MOST_DIM
from afo.tables.slot_map import SlotMap


class TableGroup:
    """Tables whose keys are dealt out to `devices`, each an embedding server: this process, or parameter servers.

    A client that names the same group on the same devices shares its tables. A device may be there more than once: it
    is then so many servers. Not thread-safe while tables are added.
    """

    def __init__(
        self,
        devices: Sequence[str] = ("/device:CPU:0",),
        name: str = "afo/embeddings",
        *,
        tables: Sequence[Table] = (),
        client: str = "/device:CPU:0",
        slots: SlotMap | None = None,
        asked: str = "",
    ) -> None:
        """`tables`: those that another client has created, or `create` will. `client`: the device of this process.
        `slots`: which device owns which keys, the same for all clients of a group; equal ranges where there is none.
        `asked`: as which client (`afo.embedding.plus_client`) this process asks servers of our own, one a device.

        Raises SpecError for a table's width or name, or for slots of another number of servers.
        """
        self.devices = tuple(devices)
        self.name = name
        self.slots = SlotMap.equal(len(devices)) if slots is None else slots
        if self.slots.servers != len(devices):
            raise SpecError(
                f"table group `{name}`: its slot map has {self.slots.servers} starts, and it has {len(devices)}"
                " devices; give a start for each device"
            )
        self.tables: list[Table] = []
        #: One by one, and as `afo.embedding.pull_push` knows them.
        self._links: list[Server]
        self.as_servers: Servers
        if asked:
            plus = PlusServers(asked, len(self.devices))
            self._links, self.as_servers = list(plus.servers), plus
        else:
            self._links = [
                DeviceServer(device, f"{name}/{number}", client) for number, device in enumerate(self.devices)
            ]
            self.as_servers = servers_of(devices, client)
        self._servers: list[ServerTables] = []
        for table in tables:
            self._declare(table, len(tables))

    @property
    def servers(self) -> int:
        """How many processes hold rows."""
        return len(self.devices)

    def server(self, number: int) -> ServerTables:
        """The tables on one server."""
        if not self._servers:
            self._servers = [
                ServerTables(link, number, self.slots, self.tables) for number, link in enumerate(self._links)
            ]
        return self._servers[number]

    def add(self, table: Table) -> int:
        """Creates a table on every server; returns its number. Raises SpecError for a width out of range or a name
        that is taken."""
        number = self._declare(table, len(self.tables) + 1)
        for server in range(self.servers):
            self.server(server).create(number)
        return number

    def create(self, servers: Collection[int] | None = None) -> None:
        """Creates all tables on these servers, or on all, where they are not yet."""
        for server in range(self.servers) if servers is None else servers:
            self.server(server).create()

    def link(self, server: int) -> Server:
        """One server, for what is not about tables."""
        return self._links[server]

    def store(self, server: int) -> Store:
        """Of one server, for a part of a step."""
        return self._links[server].store()

    def sizes(self) -> tuple[Any, Any]:
        """(keys, bytes), int64 [servers, tables] each."""
        found = [self.server(server).sizes() for server in range(self.servers)]
        return np.stack([keys for keys, _ in found]), np.stack([size for _, size in found])

    def remove(self, number: int, keys: Any) -> int:
        """Removes rows, wherever they are; returns how many there were."""
        return sum(self.server(server).remove(number, keys) for server in range(self.servers))

    def evict(self, step: int, oldest: int = 0, step_ago: Callable[[float], int] | None = None) -> Any:
        """Removes rows by each table's policy, as of `step` of the training; returns how many: int64 [tables].

        Rows without an update since step `oldest` go in any case. `step_ago`: the last step that was made so many
        seconds ago or before, for `unused_time`. What is removed is in the next delta of a checkpoint. Raises SpecError
        where a table goes by time and there is no `step_ago`.
        """
        bounds = [max(oldest, self._bound_of(table, step_ago)) for table in self.tables]
        if not any(bounds) and all(replace(table.eviction, unused_time=None) == Eviction() for table in self.tables):
            return np.zeros(len(self.tables), np.int64)
        return sum(self.server(server).evict(step, bounds) for server in range(self.servers))

    @staticmethod
    def _bound_of(table: Table, step_ago: Callable[[float], int] | None) -> int:
        """The step before which a row of it is too old."""
        seconds = table.eviction.unused_time
        if seconds is None:
            return 0
        if step_ago is None:
            raise SpecError(f"embedding variable `{table.name}` is evicted by unused_time: give `step_ago`")
        return step_ago(seconds)

    def _declare(self, table: Table, tables: int) -> int:
        """`tables`: how many there are to be, as far as is known."""
        check_dim(table.name, table.dim)
        if any(known.name == table.name for known in self.tables):
            raise SpecError(f"there is an embedding variable `{table.name}` already; give this one another name")
        self.tables.append(table._replace(shard_bits=_shard_bits(tables)))
        self._servers = []
        return len(self.tables) - 1


def check_dim(name: str, dim: int) -> None:
    """Raises SpecError for a width that no table has."""
    if not 1 <= dim <= MOST_DIM:
        raise SpecError(f"embedding variable `{name}`: embedding_dim must be 1 to {MOST_DIM}, not {dim}")


def _shard_bits(tables: int) -> int:
    """Shards let threads work on one table at once. Where there are many tables they do so anyway, and a batch's few
    keys of each would be spread over many shards, each of which has to be entered: 7 ms of a step over 300 tables.
    """
    return 4 if tables <= 32 else 2 if tables <= 128 else 0
