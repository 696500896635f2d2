"""Two jobs side by side: which settings differ, how well they did, how quick they were and what they cost. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from afo.data.schema import Schema
from afo.formats.yaml_tree import Steps, path_text
from afo.job import Job
from afo_client.jobs.view import JobView
from afo_client.terminal.ratio import ratio

_ABSENT = object()


class Difference(Struct, frozen=True, kw_only=True):
    """A setting by its `$.path` in the job file; None for what one of the jobs does not set."""

    path: str
    a: Any
    b: Any


def differences(a: Job, b: Job) -> list[Difference]:
    """Settings that differ, in the order of the job file's keys."""
    left_tree, right_tree = (msgspec.to_builtins(job, enc_hook=str) for job in (a, b))
    return [*_list_differences(left_tree, right_tree, ())]


def schema_differences(a: Schema, b: Schema) -> list[Difference]:
    """What differs of the schemas that the jobs were submitted with, by label and feature."""
    return [*_list_differences(a.tree(), b.tree(), ("data", "schema"))]


def _list_differences(a: object, b: object, steps: Steps) -> Iterator[Difference]:
    for place, left, right in _differing(a, b, steps):
        yield Difference(
            path=path_text(place), a=None if left is _ABSENT else left, b=None if right is _ABSENT else right
        )


def _differing(a: Any, b: Any, steps: Steps) -> Iterator[tuple[Steps, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys((*a, *b)):
            yield from _differing(a.get(key, _ABSENT), b.get(key, _ABSENT), (*steps, key))
    elif a != b:
        yield steps, a, b


def figures(view: JobView, train_files: int) -> dict[str, float | str | None]:
    """What a job reached and cost, by name; None for what is not known (yet)."""
    verdict = view.verdict
    train_s = verdict.train_seconds if verdict else 0.0
    rate = ratio(verdict.samples, train_s) if verdict and train_s else view.samples_per_s or None
    millions = ratio(view.samples, 1e6)
    core_hours, memory = (verdict.core_hours, verdict.memory_gb_hours) if verdict else (None, None)
    return {
        "state": view.state,
        "train_files": train_files,
        **{f"metrics.{name}": value for name, value in view.metrics.items()},
        "step": view.step, "samples": view.samples, "samples_per_s": rate,
        "input_wait": verdict.input_wait if verdict else view.input_wait, "staleness": view.staleness,
        "seconds": verdict.seconds if verdict else None, "train_seconds": train_s or None,
        "restarts": verdict.restarts if verdict else view.restarts,
        "core_hours": core_hours, "memory_gb_hours": memory,
        "core_hours_per_million_samples": ratio(core_hours, millions) if core_hours is not None and millions else None,
        "memory_gb_hours_per_million_samples": ratio(memory, millions) if memory is not None and millions else None,
    }  # fmt: skip
