"""Warnings about what is allowed and probably not meant: before anything starts, and nothing is refused for them."""

import os
from collections.abc import Iterator

from afo.data.io.examples import first_examples
from afo.formats.units import Memory
from afo.job import Data, Job, Role
from afo.job.export import BESIDE_MIB
from afo_client.submission.inspection import Inspection
from afo_client.submission.record_count import complete_schedule, eval_interval, numbers, steps_of
from afo_client.terminal.console import pluralize

#: Fewest steps from which a model of this kind learns something.
FEW_STEPS = 100
#: Records that are looked through for both classes of a label: so many at once, and so many where those held one.
LABEL_RECORDS = (200, 20_000)
#: Memory below which a task, with TensorFlow, and an Application Master cannot run.
LEAST_MIB, LEAST_MASTER_MIB = 256, 64
#: Memory that a chief takes at least: TensorFlow, its threads, batches.
LEAST_CHIEF_MIB = 512
#: Splits that one worker may hold: that which it reads, and the next.
SPLITS_HELD = 2
#: Processes of a local job on one core, above which they mostly wait for each other.
PROCESSES_PER_CORE = 4
#: Share of `decay_steps` that a job should make: by an exponential decay the rate falls a little in each.
_LEAST_DECAY = {"exponential": 0.1, "linear": 0.5, "cosine": 0.5}


def job_warnings(job: Job, found: Inspection, *, local: bool) -> Iterator[str]:
    """`found`: what it will read; `local`: all of it runs on this machine."""
    data = job.data
    yield from small_containers(job)
    yield from small_exporter(job)
    yield from _idle_workers(job, len(found.splits))
    # A model that was trained before learns from a few steps, too: of a day, or an hour.
    yield from () if found.warm_start else _few_steps(job, found.records)
    yield from _cooldown(job, found.records)
    # The decay counts from the earlier model's steps on, and those are not known here.
    yield from () if found.warm_start else _decay(job, found.records)
    yield from _evaluations(job, found.records)
    for key, files in (("train", found.train), ("eval", found.eval)):
        if files:
            yield from _one_class(key, files[0].url, data)
    processes, cores = sum(spec.count for spec in job.roles.values()), len(os.sched_getaffinity(0))
    if local and processes > PROCESSES_PER_CORE * cores:
        yield f"{processes} processes on {pluralize(cores, 'core')} of this machine; take fewer, or --runtime yarn"


def small_containers(job: Job) -> Iterator[str]:
    """Containers that cannot hold their process: a number without a unit is MiB, as Hadoop has it."""
    sizes = {f"roles.{role}.memory": (spec.memory, LEAST_MIB) for role, spec in job.roles.items()}
    for key, (memory, least) in {**sizes, "am.memory": (job.am.memory, LEAST_MASTER_MIB)}.items():
        if memory < least:
            yield f"`{key}` is {int(memory)} MiB, less than its process takes; {memory.more(least)}"


def small_exporter(job: Job) -> Iterator[str]:
    """A chief's container without room for the processes that export versions beside it while it trains."""
    role: Role = "chief" if "chief" in job.roles else "worker"
    memory, least = job.roles[role].memory, LEAST_CHIEF_MIB + BESIDE_MIB
    if job.export.every is None or not LEAST_MIB <= memory < least:
        return
    alone = f", or only the chief, with `roles.chief.memory: {least}`" if job.roles[role].count > 1 else ""
    yield (
        f"`roles.{role}.memory` is {memory}, and holds the chief: by `export.every` processes that export run beside it"
        f" and take up to {Memory(BESIDE_MIB)}, as the chief takes {LEAST_CHIEF_MIB} MiB or more; YARN ends a container"
        f" that takes more than it has. Give it {least} MiB or more{alone}"
    )


def _idle_workers(job: Job, splits: int) -> Iterator[str]:
    reading = sum(spec.count for role, spec in job.roles.items() if role in ("chief", "worker"))
    if reading == 1 or splits >= SPLITS_HELD * reading:
        return
    idle = (
        f"{reading - splits} will have nothing to read"
        if splits < reading
        else "a worker reads ahead and may hold two, so that another may have nothing to read"
    )
    yield (
        f"{pluralize(reading, 'worker')} and {pluralize(splits, 'split')} of training data: {idle}; take fewer"
        " workers, more files, or `data.split_size`"
    )


def _few_steps(job: Job, records: int | None) -> Iterator[str]:
    data, steps = job.data, steps_of(job, records)
    if steps is None or steps >= FEW_STEPS:
        return
    samples = "" if records is None else f"{pluralize(records, 'sample')}, "
    passes = f"{samples}{pluralize(data.epochs, 'epoch')}, batches of {data.batch_size}"
    passes += "" if job.train.max_steps is None else f", `train.max_steps: {job.train.max_steps}`"
    yield (
        f"about {pluralize(steps, 'step')} in all ({passes}): too few to learn from; take more epochs or smaller"
        " batches"
    )


def _cooldown(job: Job, records: int | None) -> Iterator[str]:
    schedule = complete_schedule(job, records)
    if schedule.cooldown and schedule.steps is None:
        yield (
            "how many steps the job will make is not known: the learning rate stays as it"
            " is to the end; set `optimizer.schedule.steps`, or `optimizer.schedule.cooldown: 0`"
        )
    made = steps_of(job, records)
    if schedule.cooldown and schedule.steps and made is not None and not 0.9 <= schedule.steps / max(made, 1) <= 1.1:
        yield f"`optimizer.schedule.steps` is {schedule.steps:,}, and the job will make about {pluralize(made, 'step')}"


def _decay(job: Job, records: int | None) -> Iterator[str]:
    schedule, made = job.optimizer.schedule, steps_of(job, records)
    if schedule.decay == "none" or made is None:
        return
    passed = max(0, made - schedule.warmup_steps) / schedule.decay_steps
    if passed < _LEAST_DECAY[schedule.decay]:
        yield (
            f"`optimizer.schedule.decay_steps` is {schedule.decay_steps:,}, and the job will make about"
            f" {pluralize(made, 'step')}: {passed:.1%} of its {schedule.decay} decay; take fewer `decay_steps`"
        )


def _evaluations(job: Job, records: int | None) -> Iterator[str]:
    every, made = eval_interval(job, records).steps, steps_of(job, records)
    if every is not None and made is not None and every > made:
        yield (
            f"`train.eval_every` is {pluralize(every, 'step')}, and the job will make about {pluralize(made, 'step')}:"
            " it is evaluated at its end alone"
        )


def _one_class(key: str, url: str, data: Data) -> Iterator[str]:
    for most in LABEL_RECORDS:
        found = first_examples(url, data, most, data.labels, [] if data.max_bad_records else None)
        seen = {name: {value for record in found for value in numbers(record, name)} for name in data.labels}
        single = {name: values for name, values in seen.items() if len(values) == 1}
        if not single:
            return
    for name, values in single.items():
        what = "an AUC needs both classes" if key == "eval" else "a model learns nothing from one class"
        yield f"$.data.{key}: `{name}` is {values.pop():g} in each of the first {len(found):,} records of {url}; {what}"
