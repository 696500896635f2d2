"""Combinations of keys that a job file may have: one table, from which docs/job-file.md has its own.

A combination says of a key what it needs beside it. The sections check theirs when they are made, from a file or in
Python. What one key alone may be is in its annotation.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from afo.errors import SpecError
from afo.job.section import MOST_BLOOM_COUNT


class Combination(NamedTuple):
    """A key below its section, what it needs, and what breaks that: a part of `sentence`, as `{}`, or just true."""

    key: str
    needs: str
    broken_by: Callable[[Any], object]
    sentence: str


def check_combinations(section: object, combinations: tuple[Combination, ...]) -> None:
    """Raises `SpecError` about the first combination that does not hold."""
    for combination in combinations:
        if part := combination.broken_by(section):
            raise SpecError(combination.sentence.format(part))


def _first(parts: Iterator[object]) -> object:
    return next(parts, None)


def _differs(section: Any, keys: tuple[str, ...], **same: object) -> object:
    """The first of these keys that has another value than by default, beside what is the `same`."""
    usual = type(section)(**same)
    return _first(key for key in keys if getattr(section, key) != getattr(usual, key))


def _lacking_role(job: Any) -> object:
    needed = ("worker",) if job.program else ("ps", "worker")
    return _first(role for role in needed if role not in job.roles or job.roles[role].count < 1)


def _unused_by_own_model(model: Any) -> object:
    if not model.entry:
        return None
    key = _differs(model, ("parts", "hidden_units", "precision", "wide"))
    inner = _differs(model.embedding, ("dim", "hash_buckets"), storage=model.embedding.storage)
    found = key or (inner and f"embedding.{inner}")
    return found and f"`{found}` is for `wide_deep` and would change nothing of `{model.entry}`"


_EVALUATED = "`{}` goes by evaluations: add `roles.evaluator` and `data.eval`, or leave it out"
_EVALUATES = "`roles.evaluator`, `data.eval`"

JOB = (
    Combination(
        "roles.worker, roles.ps", "one instance or more; a `program` needs no `ps`", _lacking_role,
        "`roles` needs `{}` with at least one instance",
    ),
    Combination(
        "roles.chief, roles.evaluator", "one instance, or none",
        lambda job: _first(
            f"`roles.{role}`: at most 1, not {job.roles[role].count}"
            for role in ("chief", "evaluator") if role in job.roles and job.roles[role].count != 1
        ),
        "{}",
    ),
    Combination(
        "roles.<role>.instances", "1 or more",
        lambda job: _first(
            f"`roles.{role}.instances` is {spec.instances}"
            for role, spec in job.roles.items() if isinstance(spec.instances, int) and spec.instances < 1
        ),
        "{}; at least 1",
    ),
    Combination(
        "roles.<role>.instances.min", "`worker`, with `max` not below `min`",
        lambda job: _first(
            role for role, spec in job.roles.items() if not isinstance(spec.instances, int)
            and (role != "worker" or spec.instances.min > spec.instances.max)
        ),
        "`roles.{}.instances`: only workers are elastic, with min <= max",
    ),
    Combination(
        "roles.<role>.min_success", "`worker`, of a `model`",
        lambda job: _first(
            role for role, spec in job.roles.items() if spec.min_success != 1 and (role != "worker" or job.program)
        ),
        "`roles.{}.min_success` is for the workers of a model; all other tasks are needed",
    ),
    Combination(
        "roles.<role>.optional", "`evaluator`",
        lambda job: _first(role for role, spec in job.roles.items() if spec.optional and role != "evaluator"),
        "`roles.{}.optional`: only the evaluator is; for workers there is `min_success`",
    ),
    Combination(
        "roles.evaluator.optional", "no `train.early_stop`, no `export.require`, no `export.checkpoint: best`",
        lambda job: any(spec.optional for spec in job.roles.values())
        and (job.train.early_stop or job.export.awaits_evaluation),
        "`roles.evaluator.optional`: `train.early_stop` or `export` goes by its evaluations",
    ),
    Combination(
        "program", "no `model`", lambda job: job.program and job.model != type(job.model)(),
        "a job has a `model` or a `program`, not both",
    ),
    Combination(
        "engine: psplus", "`model`", lambda job: job.engine == "psplus" and job.program,
        "`engine: psplus` is for a `model`; a `program` starts its own servers: leave `engine` out",
    ),
    Combination(
        "engine: psplus", "`model.embedding.storage: hash_table`",
        lambda job: job.engine == "psplus" and job.model.embedding.storage != "hash_table",
        "`engine: psplus` has hash tables alone; leave `model.embedding.storage: dense` out, or `engine`",
    ),
    Combination(
        "security.tunnel", "`model`", lambda job: job.security.tunnel and job.program,
        "`security.tunnel` is for a `model`; a `program` makes connections that afo cannot redirect",
    ),
    Combination(
        "ends_with", "`program`", lambda job: job.ends_with != "all" and not job.program,
        "`ends_with` is for a job with a `program`; a model's workers end with the data",
    ),
    Combination(
        "checkpoint.on_ps_loss: partial", "`model`", lambda job: job.checkpoint.keeps_survivors and job.program,
        "`checkpoint.on_ps_loss: partial` is for a `model`; a `program` keeps its own checkpoints",
    ),
    Combination(
        "checkpoint.on_ps_loss: partial", "2 `ps`",
        lambda job: job.checkpoint.keeps_survivors and job.roles["ps"].count < 2,
        "`checkpoint.on_ps_loss: partial` needs 2 `ps`: with one there is nothing to keep",
    ),
    Combination(
        "optimizer.embedding", "`model.embedding.storage: hash_table`",
        lambda job: job.optimizer.embedding is not None and job.model.embedding.storage != "hash_table",
        "`optimizer.embedding` is for `model.embedding.storage: hash_table`; leave it out",
    ),
    Combination(
        "data.train", "one file or more, or a `program`", lambda job: not job.program and not job.data.train,
        "`data.train` needs at least one file or glob",
    ),
    Combination(
        "roles.evaluator", "`data.eval`, or a `program`",
        lambda job: "evaluator" in job.roles and not job.program and not job.data.eval,
        "`roles.evaluator` needs files in `data.eval`",
    ),
    Combination(
        "train.early_stop", _EVALUATES,
        lambda job: "evaluator" not in job.roles and job.train.early_stop is not None and "train.early_stop",
        _EVALUATED,
    ),
    Combination(
        "export.require", _EVALUATES,
        lambda job: "evaluator" not in job.roles and job.export.require and "export.require", _EVALUATED,
    ),
    Combination(
        "export.checkpoint: best", _EVALUATES,
        lambda job: "evaluator" not in job.roles and job.export.checkpoint == "best" and "export.checkpoint",
        _EVALUATED,
    ),
)  # fmt: skip

DATA = (
    Combination(
        "class_weight", "one `label`", lambda data: data.class_weight and len(data.labels) > 1,
        "`class_weight` is for one label; with several, give samples a `weight`",
    ),
)  # fmt: skip

MODEL = (
    Combination(
        "parts, hidden_units, precision, wide, embedding.dim, embedding.hash_buckets", "no `entry`",
        _unused_by_own_model, "{}; leave it out, and give the function of `entry` what it needs by `params`",
    ),
    Combination(
        "embedding.features", "no `entry`", lambda model: model.entry and model.embedding.features,
        "`embedding.features` is for `wide_deep`; in `entry`'s model say it where the layer is made: "
        "`afo.layers.Embedding(..., filter=..., evict=..., pooling=...)`",
    ),
)  # fmt: skip

EMBEDDING = (
    Combination(
        "filter, evict, pooling, wire, value_dtype, features", "`storage: hash_table`",
        lambda embedding: embedding.storage != "hash_table"
        and _differs(embedding, ("filter", "evict", "pooling", "wire", "value_dtype", "features")),
        "`{}` is for `storage: hash_table`; leave it out",
    ),
)  # fmt: skip

FILTER = (
    Combination(
        "min_count", "no `probability`", lambda keys: keys.min_count > 1 and keys.probability < 1,
        "a filter has `min_count` or `probability`, not both",
    ),
    Combination(
        "max_element_size", f"a `min_count` of 2 to {MOST_BLOOM_COUNT}",
        lambda keys: keys.max_element_size and not 1 < keys.min_count <= MOST_BLOOM_COUNT and str(keys.min_count),
        f"a filter with `max_element_size` needs a `min_count` of 2 to {MOST_BLOOM_COUNT}, not {{}}",
    ),
)  # fmt: skip

#: By the path of their section in the job file.
COMBINATIONS = {"": JOB, "data": DATA, "model": MODEL, "model.embedding": EMBEDDING, "model.embedding.filter": FILTER}
