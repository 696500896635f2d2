"""The parameters of a model on the parameter servers: sharded tables, dense vector, state, positions, step.

Row r of a table lies on server r % servers, at row r // servers there. The dense vector holds all dense weights of the
model one behind the other and is cut into one contiguous range a server, so that a step moves one tensor per server.
"""

from dataclasses import dataclass

from afo.models.layout import Weight
from afo.optimizers import Rule
from afo.train.variables import PsVariable


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

    @property
    def trained(self) -> tuple[Parameter, ...]:
        """All that the optimizers change."""
        return (*self.tables, self.dense)

    @property
    def counters(self) -> tuple[PsVariable, ...]:
        """All that no optimizer touches."""
        return (*self.state, self.positions, self.step)


def parameters_of(
    tables: tuple[Parameter, ...],
    dense: Parameter,
    weights: tuple[Weight, ...],
    state: tuple[PsVariable, ...],
    splits: int,
) -> Parameters:
    """A model's parameters with the counters that every job has; all are sharded to as many servers as `dense` is."""
    return Parameters(
        servers=len(dense.shards),
        tables=tables,
        dense=dense,
        weights=weights,
        state=state,
        positions=PsVariable("afo/positions", (max(1, splits), 3), "int64", 0),
        step=PsVariable("afo/step", (), "int64", 0),
    )


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
