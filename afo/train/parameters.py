"""The parameters of a model on the parameter servers: sharded tables, dense vector, statistics, positions, step.

Row r of a table lies on server r % servers, at row r // servers there. The dense vector holds all dense weights of the
model one behind the other and is cut into one contiguous range a server, so that a step moves one tensor per server.
"""

from dataclasses import dataclass

from afo.models.layout import Layout
from afo.optimizers import Rule
from afo.train.variables import PsVariable


@dataclass(frozen=True)
class Shard:
    """One server's part of a parameter: the weights and the optimizer's slots."""

    weights: PsVariable
    slots: tuple[PsVariable, ...]


@dataclass(frozen=True)
class Parameter:
    """A trained parameter in shards; `rows` of `width` values altogether (a vector has no width: 0).

    `scale` is the spread of the normal distribution of the first weights, 0 for zeros.
    """

    name: str
    rows: int
    width: int
    rule: Rule
    shards: tuple[Shard, ...]
    scale: float = 0.0


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
    deep: Parameter | None
    wide: Parameter | None
    dense: Parameter
    #: [3, dense features]: samples, sum and sum of squares of each dense feature over all applied samples.
    statistics: PsVariable
    positions: PsVariable
    step: PsVariable

    @property
    def tables(self) -> tuple[Parameter, ...]:
        """The sharded tables there are."""
        return tuple(table for table in (self.deep, self.wide) if table is not None)

    @property
    def trained(self) -> tuple[Parameter, ...]:
        """All that the optimizers change."""
        return (*self.tables, self.dense)

    @property
    def counters(self) -> tuple[PsVariable, ...]:
        """Small variables that no optimizer touches."""
        return self.statistics, self.positions, self.step


def parameters_of(layout: Layout, deep_rule: Rule, wide_rule: Rule, servers: int, splits: int) -> Parameters:
    """Where each parameter of a model lies on `servers` parameter servers."""
    deep = _table("deep", layout.deep_rows, layout.dim, deep_rule, servers, layout.embedding_scale)
    wide = _table("wide", layout.wide_rows, 1, wide_rule, servers, 0.0)
    return Parameters(
        servers=servers,
        deep=deep if layout.has_deep else None,
        wide=wide if layout.has_wide else None,
        dense=_vector("dense", layout.dense_size, deep_rule, servers),
        statistics=PsVariable("afo/statistics", (3, layout.dense_width), "float64", 0),
        positions=PsVariable("afo/positions", (max(1, splits), 3), "int64", 0),
        step=PsVariable("afo/step", (), "int64", 0),
    )


def _table(name: str, rows: int, width: int, rule: Rule, servers: int, scale: float) -> Parameter:
    shards = tuple(_shard(name, (shard_rows(rows, task, servers), width), rule, task) for task in range(servers))
    return Parameter(name, rows, width, rule, shards, scale)


def _vector(name: str, size: int, rule: Rule, servers: int) -> Parameter:
    ranges = [range_of(size, task, servers) for task in range(servers)]
    shards = tuple(_shard(name, (stop - start,), rule, task) for task, (start, stop) in enumerate(ranges))
    return Parameter(name, size, 0, rule, shards)


def _shard(name: str, shape: tuple[int, ...], rule: Rule, task: int) -> Shard:
    def variable(suffix: str, shape: tuple[int, ...] = shape) -> PsVariable:
        return PsVariable(f"afo/{name}{suffix}/{task}", shape, "float32", task)

    slots = (variable(f"/{slot}", shape[:1] if slot in rule.row_slots else shape) for slot in rule.slots)
    return Shard(variable(""), tuple(slots))
