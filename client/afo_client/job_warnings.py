"""What of a job is allowed and probably not meant: said before anything starts, and nothing is refused for it."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice

from afo import storage
from afo.data.example import Values
from afo.data.examples import first_examples
from afo.data.formats import is_parquet
from afo.data.splits import SplitFile
from afo.data.tfrecord import read_records
from afo.errors import DataError
from afo.job import Data, Job
from afo_client.console import counted

#: Fewest steps from which a model of this kind learns something.
FEW_STEPS = 100
#: Records that are looked through for both classes of a label: so many at once, and so many where those held one.
LABEL_RECORDS = (200, 20_000)
#: Records whose mean length stands for that of all.
LENGTH_RECORDS = 200
#: Processes of a local job on one core, above which they mostly wait for each other.
PROCESSES_PER_CORE = 4


def job_warnings(
    job: Job, train: Sequence[SplitFile], evaluation: Sequence[SplitFile], splits: int, *, local: bool
) -> Iterator[str]:
    """`train` and `evaluation` are the job's files, of `splits` splits; `local`: all runs on this machine."""
    data = job.data
    yield from _idle_workers(job, splits)
    yield from _few_steps(job, train)
    for key, files in (("train", train), ("eval", evaluation)):
        if files:
            yield from _one_class(key, files[0].url, data)
    processes, cores = sum(spec.count for spec in job.roles.values()), len(os.sched_getaffinity(0))
    if local and processes > PROCESSES_PER_CORE * cores:
        yield f"{processes} processes on {counted(cores, 'core')} of this machine; take fewer, or --runtime yarn"


def _idle_workers(job: Job, splits: int) -> Iterator[str]:
    reading = sum(spec.count for role, spec in job.roles.items() if role in ("chief", "worker"))
    if splits < reading:
        yield (
            f"{counted(reading, 'worker')} and {counted(splits, 'split')} of training data: {reading - splits} will"
            " have nothing to read; take fewer workers, more files, or `data.split_size`"
        )


def _few_steps(job: Job, train: Sequence[SplitFile]) -> Iterator[str]:
    data = job.data
    if (samples := _about(train, data)) is None:
        return
    steps = -(-samples * data.epochs // data.batch_size)
    if steps < FEW_STEPS:
        passes = f"{counted(samples, 'sample')}, {counted(data.epochs, 'epoch')}, batches of {data.batch_size}"
        yield (
            f"about {counted(steps, 'step')} in all ({passes}): too few to learn from; take more epochs or smaller"
            " batches"
        )


def _about(files: Sequence[SplitFile], data: Data) -> int | None:
    """Records of all files by the length of the first; None for compressed ones."""
    first = files[0].url
    if is_parquet(data.format, first):
        from afo.data import parquet

        return parquet.facts(first)[0] * len(files)
    with storage.open_input(first) as file:
        compressed = file.read(2) == b"\x1f\x8b"
    if compressed:
        return None
    damaged: list[DataError] | None = [] if data.max_bad_records else None
    lengths = [len(each) for each in islice(read_records(first, data.compression, damaged), LENGTH_RECORDS)]
    if not lengths:
        return None
    # A TFRecord's length and two checksums: 16 bytes.
    return sum(file.size for file in files) * len(lengths) // (sum(lengths) + 16 * len(lengths))


def _one_class(key: str, url: str, data: Data) -> Iterator[str]:
    for most in LABEL_RECORDS:
        found = first_examples(url, data, most, data.labels, [] if data.max_bad_records else None)
        single = {name: values for name in data.labels if len(values := _values(found, name)) == 1}
        if not single:
            return
    for name, values in single.items():
        what = "an AUC needs both classes" if key == "eval" else "a model learns nothing from one class"
        yield f"$.data.{key}: `{name}` is {values.pop():g} in each of the first {len(found):,} records of {url}; {what}"


def _values(records: Sequence[dict[str, Values]], name: str) -> set[float]:
    return {float(value) for record in records for value in record.get(name, ())}
