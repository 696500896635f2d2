"""The parameters of a model on the parameter servers: sharded tables, dense vector, state, positions, step.

Row r of a table lies on server r % servers, at row r // servers there. The dense vector holds all dense weights of the
model one behind the other and is cut into one contiguous range a server, so that a step moves one tensor per server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from afo.embedding import TableGroup
from afo.embedding.server_tables import Table
from afo.errors import Unsupported
from afo.job_dir.lineage import NO_EPOCH
from afo.models.feature_layout import Weight
from afo.optimizers import Rule
from afo.protocol.train_task import POSITION_HOLDERS
from afo.state.variables import PsVariable, asking_client, client_device, server_devices

#: Types of a model's state that a store adds to.
_STORED = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip


@dataclass(frozen=True)
class Shard:
    """One server's part of a parameter: the weights and the optimizer's slots."""

    weights: PsVariable
    slots: tuple[PsVariable, ...]


@dataclass(frozen=True)
class Parameter:
    """A trained parameter in shards; `rows` of `width` values altogether (a vector has no width: 0)."""

    name: str
    rows: int
    width: int
    rule: Rule
    shards: tuple[Shard, ...]

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of its tensors in a checkpoint: the weights, then the slots."""
        return (self.name, *(f"{self.name}.{slot}" for slot in self.rule.slots))


def shard_rows(rows: int, shard: int, shards: int) -> int:
    """Rows of a table on one of `shards` servers."""
    return (rows - shard + shards - 1) // shards


def range_of(length: int, shard: int, shards: int) -> tuple[int, int]:
    """First and past-last element of a vector on one of `shards` servers."""
    return length * shard // shards, length * (shard + 1) // shards


@dataclass(frozen=True)
class Parameters:
    """Every variable of a job. `positions` [splits, 3] holds epoch, records applied, xor of their hashed sample ids."""

    servers: int
    tables: tuple[Parameter, ...]
    dense: Parameter
    #: What stands where in the dense vector; together all of it.
    weights: tuple[Weight, ...]
    #: Small variables that no optimizer touches; a step adds to them.
    state: tuple[PsVariable, ...]
    positions: PsVariable
    step: PsVariable
    #: A second one of these two, by name, where the position must outlive the loss of any one server.
    copies: Mapping[str, PsVariable] = field(default_factory=dict)
    #: Tables of the native engine, by key instead of by number of the row.
    embeddings: TableGroup | None = None

    @property
    def trained(self) -> tuple[Parameter, ...]:
        """All that the optimizers change."""
        return (*self.tables, self.dense)

    @property
    def records(self) -> dict[str, PsVariable]:
        """All that no optimizer touches, by its name in a checkpoint: step, positions, the model's state."""
        return {each.tensor: each for each in (self.step, self.positions, *self.state)}

    def state_on(self, server: int) -> tuple[PsVariable, ...]:
        """What a server holds of the model's state."""
        return tuple(variable for variable in self.state if variable.server == server)

    @property
    def position_holders(self) -> tuple[int, ...]:
        """The servers that hold positions and step."""
        return tuple(server for server in range(self.servers) if self.records_on(server))

    def records_on(self, server: int) -> dict[str, PsVariable]:
        """Those that a server holds, itself or as copies."""
        places = {name: (each, self.copies.get(each.name)) for name, each in self.records.items()}
        return {name: place for name, both in places.items() for place in both if place and place.server == server}


def no_positions(splits: int) -> Any:
    """Positions [splits, 3] of which nothing was read."""
    return np.tile(np.array([NO_EPOCH, 0, 0], np.int64), (splits, 1))


def parameters_of(
    tables: tuple[Parameter, ...],
    dense: Parameter,
    weights: tuple[Weight, ...],
    state: tuple[PsVariable, ...],
    splits: int,
    *,
    with_copies: bool,
    embeddings: Sequence[Table] = (),
) -> Parameters:
    """A model's parameters with the counters that every job has; all are sharded to as many servers as `dense` is.

    Raises SpecError for a table of `embeddings` that cannot be, Unsupported where the engine cannot run, or cannot hold
    `state`.
    """
    if embeddings:
        _check_state(state)
    servers = len(dense.shards)
    first, *others = (_position_and_step(splits, server) for server in POSITION_HOLDERS[:servers])
    copies = [copy for second in others for copy in zip(first, second, strict=True)] if with_copies else []
    return Parameters(
        servers=servers,
        tables=tables,
        dense=dense,
        weights=weights,
        state=state,
        positions=first[0],
        step=first[1],
        copies={counter.name: copy for counter, copy in copies},
        embeddings=_group(embeddings, servers) if embeddings else None,
    )


def require_stored(parameters: Parameters) -> None:
    """Raises Unsupported for what servers of `engine: psplus` cannot hold, which have a store and no TensorFlow."""
    dense = ", ".join(f"`{table.name}`" for table in parameters.tables)
    if dense:
        raise Unsupported(
            f"`engine: psplus` keeps embeddings in hash tables alone, and these have dense ones: {dense}; have their"
            " layers fit for hash tables (docs/own-models.md), or leave `engine` out"
        )
    if parameters.embeddings is None:
        raise Unsupported("`engine: psplus` is for models with embeddings, and this one has none; leave `engine` out")


def _check_state(state: tuple[PsVariable, ...]) -> None:
    """As `IsStateType` of afo/core/progress.h has it."""
    for variable in state:
        if variable.dtype not in _STORED:
            name = variable.name.removeprefix("afo/state.")
            raise Unsupported(
                f"the model changes `{name}` of {variable.dtype} while it trains, which it cannot have beside hash"
                f" tables; give it one of these types: {', '.join(_STORED)}"
            )


def _group(tables: Sequence[Table], servers: int) -> TableGroup:
    return TableGroup(server_devices(servers), tables=tables, client=client_device(), asked=asking_client())


def _position_and_step(splits: int, server: int) -> tuple[PsVariable, PsVariable]:
    suffix = f"/copy{server}" if server else ""
    positions = PsVariable(f"afo/positions{suffix}", (max(1, splits), 3), "int64", server)
    return positions, PsVariable(f"afo/step{suffix}", (), "int64", server)


def table(name: str, rows: int, width: int, rule: Rule, servers: int) -> Parameter:
    """A table dealt out row by row."""
    shards = tuple(_shard(name, (shard_rows(rows, task, servers), width), rule, task) for task in range(servers))
    return Parameter(name, rows, width, rule, shards)


def dense_vector(size: int, rule: Rule, servers: int) -> Parameter:
    """The vector of all dense weights, cut into ranges."""
    ranges = [range_of(size, task, servers) for task in range(servers)]
    shards = tuple(_shard("dense", (stop - start,), rule, task) for task, (start, stop) in enumerate(ranges))
    return Parameter("dense", size, 0, rule, shards)


def state_variable(name: str, shape: tuple[int, ...], dtype: str) -> PsVariable:
    """A variable of the model that a step adds to; on the first server, as the counters."""
    return PsVariable(f"afo/{name}", shape, dtype, 0)


def _shard(name: str, shape: tuple[int, ...], rule: Rule, task: int) -> Shard:
    def variable(suffix: str, shape: tuple[int, ...]) -> PsVariable:
        return PsVariable(f"afo/{name}{suffix}/{task}", shape, "float32", task)

    slots = tuple(variable(f"/{slot}", shape[:1] if slot in rule.row_slots else shape) for slot in rule.slots)
    return Shard(variable("", shape), slots)
