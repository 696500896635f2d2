"""One schedule: a seed becomes a job with its faults, is run to its end, and looked at."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from dataclasses import dataclass, field

from afo.events import types as ev
from simulation import endings, faults
from simulation.broken import Broken
from simulation.cluster import SimulatedCluster
from simulation.shapes import Shape, large, small

#: A job that has not ended after so many turns does not end.
_MOST_TURNS = 5000
#: Events of a failed schedule that are shown.
_SHOWN = 60
#: Fields of events that tell nothing about a schedule.
_DULL = frozenset(
    {"usage", "progress", "tail", "log_url", "environment", "memory", "vcores", "train_files", "first_bad"}
)


@dataclass
class Result:
    """What became of a schedule. `broken` is '' if every promise held, else what did not hold."""

    seed: int
    size: str
    outcome: str = ""
    broken: str = ""
    story: str = ""
    seconds: float = 0.0
    events: int = 0
    stimuli: int = 0
    turns: int = 0
    faults: Counter[str] = field(default_factory=Counter)


def run(seed: int, size: str = "small", *, tell: bool = False) -> Result:
    """Of one seed, always the same. `tell`: the whole story, also of one that went well."""
    shape = large(seed) if size == "large" else small(seed)
    result = Result(seed, size)
    cluster: SimulatedCluster | None = None
    try:
        cluster = SimulatedCluster(
            shape.config, seed, loss=shape.loss, repeats=shape.repeats, gives=shape.gives, hosts=shape.hosts,
            look_every=shape.look_every, source=shape.source, event_bytes=shape.event_bytes,
            torn_starts=shape.torn_starts,
        )  # fmt: skip
        cluster.restart_rate, cluster.failure_rate = shape.restart_rate, shape.failure_rate
        result.turns = _live(cluster, shape)
        endings.look(cluster)
    except Broken as broken:
        result.broken = str(broken)
    except Exception:
        result.broken = traceback.format_exc(limit=-6)
    if cluster is not None:
        verdict = cluster.core.state.verdict
        result.outcome = f"{verdict} {cluster.core.state.verdict_cause}" if verdict == "FAILED" else verdict
        result.faults, result.events, result.stimuli = cluster.faults, len(cluster.log), cluster.stimuli
        result.seconds = cluster.time - 1000.0
        if result.broken or tell:
            result.story = _story(cluster, shape, 10**9 if tell else _SHOWN)
    return result


def _live(cluster: SimulatedCluster, shape: Shape) -> int:
    chance = random.Random(f"faults {shape.seed}")
    names, weights = list(shape.kinds), list(shape.kinds.values())
    for turn in range(_MOST_TURNS):
        if cluster.finished is not None:
            return turn
        if turn == shape.fault_turns:
            cluster.restart_rate = cluster.failure_rate = 0.0
        if turn < shape.fault_turns and chance.random() < shape.rate:
            _disturb(cluster, chance, chance.choices(names, weights)[0])
        cluster.turn()
    waiting = [f"{task.id} {task.stage}" for task in cluster.core.state.tasks.values()]
    raise Broken(f"the job did not end in {_MOST_TURNS} turns: {', '.join(waiting[:20])}")


def _disturb(cluster: SimulatedCluster, chance: random.Random, name: str) -> None:
    cluster.story.append((cluster.time, f"    {name} …"))  # stands there too when the fault is what breaks something
    words = faults.KINDS[name].happens(cluster, chance)
    cluster.story.pop()
    if words:
        cluster.faults[name] += 1
        cluster.story.append((cluster.time, f"    {name}: {words}"))


def _story(cluster: SimulatedCluster, shape: Shape, shown: int) -> str:
    lines = [*cluster.story, *((time, f"{type(event).__name__} {_values(event)}") for event, time in cluster.log)]
    lines.sort(key=lambda line: line[0])
    told = [f"{time:8.0f} {words[:240]}" for time, words in lines[-shown:]]
    return "\n".join([str(shape), *(["…"] if len(lines) > shown else []), *told])


def _values(event: ev.AnyEvent) -> str:
    """Those that say something."""
    values = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _DULL}
    task = values.pop("task", None)
    who = [f"{task} (attempt {task.attempt})"] if task else []
    return ", ".join([*who, *(f"{name} {value}" for name, value in values.items() if value not in ("", (), {}, None))])
