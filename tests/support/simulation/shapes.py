"""What a schedule is made of: a job, a world, and the kinds of faults that it has, all from one seed."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass

from msgspec.structs import replace

from afo.events.split_list import EVENT_BYTES
from afo.formats.units import Duration
from afo.job import Checkpoint, Elastic, Job, Restart, RestartBudget, Role, RoleSpec, Slow, Timeouts
from afo.job.fault_tolerance import Backoff
from afo.protocol.am_config import AmConfig
from fake_cluster import make_config
from simulation import faults
from simulation.source import BEGINNING, Source, make_source

#: Tasks of a job of `small` at most, and of one of `large` at least.
MOST_OF_SMALL, LEAST_OF_LARGE = 20, 1000


@dataclass(frozen=True)
class Shape:
    """One schedule before it begins."""

    seed: int
    config: AmConfig
    #: How likely a fault is in a turn, how many turns they go on for, and which kinds there are, with their weights.
    rate: float
    fault_turns: int
    kinds: dict[str, float]
    #: Of the network, and how likely a request gets its container in a turn.
    loss: float
    repeats: float
    gives: float
    hosts: int
    look_every: int = 1
    #: How often a turn of a worker begins with a new process in place, and of a program ends with its process.
    restart_rate: float = 0.0
    failure_rate: float = 0.0
    #: Where files come from while the job runs; None where its list is closed.
    source: Source | None = None
    #: Of the splits of one event, and how many starts of the AM end while the list is being written.
    event_bytes: int = EVENT_BYTES
    torn_starts: int = 0

    @property
    def tasks(self) -> int:
        """How many the job has."""
        return sum(spec.count for spec in self.config.job.roles.values())

    def __str__(self) -> str:
        job = self.config.job
        roles = ", ".join(f"{spec.count} {role}" for role, spec in job.roles.items())
        what = (
            f"program, restart.scope {job.restart.scope}, ends_with {job.ends_with}"
            if job.program
            else f"{len(self.config.train_files)} files, {job.data.epochs} epochs, {job.engine}, "
            f"{job.checkpoint.on_ps_loss}"
        )
        if self.source:
            what += f", {len(self.source.files)} files in all until {self.source.closes:.0f}"
        if self.torn_starts:
            what += f", {self.torn_starts} starts of the AM torn"
        budgets = {role: f"{job.restart.of(role).max} in {job.restart.of(role).per}" for role in job.roles}
        return (
            f"{what}; {roles}; budgets {budgets}; faults {self.rate:g} a turn for {self.fault_turns} turns of "
            f"{', '.join(self.kinds)}; network loses {self.loss:g}, repeats {self.repeats:g}; "
            f"containers {self.gives:g} a turn; {self.hosts} hosts"
        )  # fmt: skip


def small(seed: int) -> Shape:
    """Of up to 20 tasks."""
    chance = random.Random(f"small {seed}")
    program = chance.random() < 0.25
    roles = _roles(chance, program)
    config = _program(chance, roles) if program else _model(chance, roles)
    config = replace(config, job=replace(config.job, timeouts=_timeouts(chance)))
    names = sorted(faults.KINDS)
    chosen = chance.sample(names, chance.randint(1, len(names)))
    kinds = {name: faults.KINDS[name].weight for name in chosen}
    config = _with_engine(config, f"small {seed}")
    return _with_source(Shape(
        seed=seed, config=config, kinds=kinds, rate=chance.choice((0.02, 0.05, 0.1, 0.2, 0.4)),
        fault_turns=chance.choice((20, 60, 120)), loss=chance.choice((0.0, 0.0, 0.02, 0.1, 0.25)),
        repeats=chance.choice((0.0, 0.05, 0.2)), gives=chance.choice((1.0, 1.0, 0.5, 0.2)), hosts=chance.randint(1, 6),
        restart_rate=chance.choice((0.0, 0.0, 0.1)), failure_rate=chance.choice((0.0, 0.05)),
    ))  # fmt: skip


def large(seed: int) -> Shape:
    """Of 1,000 tasks or more, with faults that hit many of them."""
    chance = random.Random(f"large {seed}")
    workers, ps = chance.randint(LEAST_OF_LARGE, 1200), chance.randint(20, 100)
    roles: dict[Role, RoleSpec] = {"worker": _elastic(chance, workers), "ps": RoleSpec(instances=ps)}
    if chance.random() < 0.5:
        roles["evaluator"] = RoleSpec()
    base = make_config(files=chance.randint(2 * workers, 8 * workers), epochs=1)
    config = _with(base, roles, _restart(chance, 3), chance.choice(("rollback", "partial")))
    config = _with_engine(config, f"large {seed}")
    return _with_source(Shape(
        seed=seed, config=config, kinds={name: kind.weight for name, kind in faults.KINDS.items() if kind.for_large},
        rate=chance.choice((0.1, 0.3, 0.6)), fault_turns=60, loss=chance.choice((0.0, 0.02)), repeats=0.02,
        gives=chance.choice((1.0, 0.5)), hosts=chance.randint(20, 200), look_every=200,
    ), (EVENT_BYTES, 20_000))  # fmt: skip


def _with_engine(config: AmConfig, seed: str) -> AmConfig:
    """Workers of every other model stay when a parameter server is lost."""
    if config.job.program or random.Random(f"engine {seed}").random() < 0.5:
        return config
    return replace(config, job=replace(config.job, engine="psplus"))


def _with_source(shape: Shape, sizes: tuple[int, ...] = (EVENT_BYTES, 100, 400)) -> Shape:
    """Of a third of the models the files come while they train. `sizes`: of events."""
    chance = random.Random(f"source {shape.seed}")
    shape = dataclasses.replace(shape, event_bytes=chance.choice(sizes), torn_starts=chance.choice((0, 0, 0, 1, 1, 2)))
    if shape.config.job.program or chance.random() > 0.35:
        return shape
    source = make_source(chance, tuple(shape.config.splits))
    begun = chance.randint(0, source.count(BEGINNING))
    config = replace(shape.config, train_files=shape.config.train_files[:begun], train_closed=False)
    return dataclasses.replace(shape, config=config, source=source)


def _roles(chance: random.Random, program: bool) -> dict[Role, RoleSpec]:
    roles: dict[Role, RoleSpec] = {}
    if chance.random() < 0.5:
        roles["chief"] = RoleSpec()
    if chance.random() < 0.5:
        roles["evaluator"] = RoleSpec(optional=not program and chance.random() < 0.3)
    if not program or chance.random() < 0.5:
        roles["ps"] = RoleSpec(instances=chance.randint(1, 5))
    left = MOST_OF_SMALL - sum(spec.count for spec in roles.values())
    count = chance.choice((chance.randint(1, 4), chance.randint(1, left)))
    roles["worker"] = (
        RoleSpec(instances=count)
        if program
        else replace(_elastic(chance, count), min_success=chance.choice((1.0, 1.0, 0.5)))
    )
    return roles


def _elastic(chance: random.Random, most: int) -> RoleSpec:
    return RoleSpec(instances=Elastic(min=chance.randint(1, most), max=most) if chance.random() < 0.7 else most)


def _restart(chance: random.Random, least: int = 0, scope: str = "job") -> Restart:
    def budget() -> RestartBudget:
        return RestartBudget(
            max=chance.choice((least, least + 1, 5, 1000)), per=Duration(chance.choice((10, 40, 3600)))
        )

    backoff = Backoff(
        initial=Duration(chance.choice((1, 4, 20))), max=Duration(chance.choice((8, 60))),
        reset=Duration(chance.choice((30, 600))),
    )  # fmt: skip
    return Restart(
        chief=budget(), worker=budget(), ps=budget(), evaluator=budget(), backoff=backoff, scope=scope,  # type: ignore[arg-type]
        slow=Slow(over=Duration(chance.choice((10, 24)))),
    )  # fmt: skip


def _model(chance: random.Random, roles: dict[Role, RoleSpec]) -> AmConfig:
    base = make_config(
        files=chance.choice((1, chance.randint(2, 12), chance.randint(2, 40), chance.randint(40, 160))),
        epochs=chance.randint(1, 3),
    )
    return _with(base, roles, _restart(chance), chance.choice(("rollback", "partial", "partial")))


def _with(base: AmConfig, roles: dict[Role, RoleSpec], restart: Restart, on_ps_loss: str) -> AmConfig:
    checkpoint = Checkpoint(on_ps_loss=on_ps_loss if roles["ps"].count > 1 else "rollback")  # type: ignore[arg-type]
    return replace(base, job=replace(base.job, roles=roles, restart=restart, checkpoint=checkpoint))


def _timeouts(chance: random.Random) -> Timeouts:
    return Timeouts(repair=Duration(chance.choice((20, 60, 1800))))


def _program(chance: random.Random, roles: dict[Role, RoleSpec]) -> AmConfig:
    ends_with = chance.choice(("all", "chief")) if "chief" in roles else "all"
    job = Job(
        name="test", roles=roles, program="train.py", ends_with=ends_with,  # type: ignore[arg-type]
        restart=_restart(chance, scope=chance.choice(("job", "task"))),
    )  # fmt: skip
    return replace(make_config(), job=job, train_files=())
