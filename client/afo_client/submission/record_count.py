"""Count of a job's training records, and so of its steps, before any of them is read."""

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from afo import storage
from afo.data.example import Values
from afo.data.io.compression import detect
from afo.data.io.examples import first_examples
from afo.data.io.formats import is_parquet
from afo.data.io.split_files import SplitFile
from afo.data.io.tfrecord import read_records
from afo.errors import SpecError
from afo.formats.units import Interval
from afo.job import Data, Job, Schedule
from afo.job.section import MOST_INT

#: Files that stand for all, and records at the beginning of each whose length does for the file's.
FILES, RECORDS = 8, 250
#: Share of a job's steps over which the learning rate falls where the job does not say: docs/training.md.
COOLDOWN = 0.2
#: A TFRecord's length and two checksums. Bytes.
_FRAME = 16
#: Bytes by which a compressed file is known.
_HEAD = 32


def trained_records(files: Sequence[SplitFile], data: Data) -> int | None:
    """About as many as an epoch trains on: without the negatives that are not sampled. None for compressed TFRecord."""
    chosen = files[:: -(-len(files) // FILES)]
    count = _rows if is_parquet(data.format, files[0].url) else _by_length
    records = count(files, chosen, data)
    return None if records is None else round(records * _kept_share(chosen, data)) or None


def _rows(files: Sequence[SplitFile], chosen: Sequence[SplitFile], data: Data) -> float | None:
    from afo.data.io import parquet

    return sum(parquet.facts(file.url)[0] for file in chosen) * len(files) / len(chosen)


def _by_length(files: Sequence[SplitFile], chosen: Sequence[SplitFile], data: Data) -> float | None:
    if any(_is_compressed(file, data) for file in chosen):
        return None
    # What is damaged is not this function's business, and counts for nothing.
    lengths = [
        len(record) for file in chosen for record in islice(read_records(file.url, data.compression, []), RECORDS)
    ]
    return sum(file.size for file in files) * len(lengths) / (sum(lengths) + _FRAME * len(lengths)) if lengths else None


def _is_compressed(file: SplitFile, data: Data) -> bool:
    if data.compression != "auto":
        return data.compression != "none"
    with storage.open_input(file.url) as content:
        return detect(content.read(_HEAD)) != "none"


def _kept_share(chosen: Sequence[SplitFile], data: Data) -> float:
    """Share of the records that `data.negative_sampling` leaves."""
    if data.negative_sampling is None:
        return 1.0
    records = [record for file in chosen for record in first_examples(file.url, data, RECORDS, data.labels, [])]
    positive = sum(any(value > 0 for name in data.labels for value in numbers(record, name)) for record in records)
    share = positive / max(1, len(records))
    return share + (1 - share) * data.negative_sampling.keep


def numbers(record: Mapping[str, Values], name: str) -> list[float]:
    """The values of a label; a bad record may hold others, and those count for nothing."""
    return [float(value) for value in record.get(name, ()) if not isinstance(value, bytes | str)]


def settle_steps(job: Job, records: int | None) -> Job:
    """The job with its schedule completed and `train.eval_every` in steps. Raises what `eval_interval` raises."""
    optimizer = replace(job.optimizer, schedule=complete_schedule(job, records))
    return replace(job, optimizer=optimizer, train=replace(job.train, eval_every=eval_interval(job, records)))


def complete_schedule(job: Job, records: int | None) -> Schedule:
    """The job's schedule with its cooldown and the steps that it goes by; those are None where nobody can say."""
    schedule = job.optimizer.schedule
    share = schedule.cooldown
    if share is None:
        share = 0.0 if job.model.entry or job.checkpoint.warm else COOLDOWN
    steps = steps_of(job, records) if schedule.steps is None else schedule.steps
    if steps is not None and not 1 <= steps <= MOST_INT:
        steps = None
    return replace(schedule, cooldown=share, steps=steps)


def eval_interval(job: Job, records: int | None) -> Interval:
    """`train.eval_every`, by samples or epochs in steps. Raises `SpecError` for an epoch whose records nobody knows."""
    every, size = job.train.eval_every, job.data.batch_size
    if every.epochs is not None and records is None:
        raise SpecError(
            f"$.train.eval_every: {str(every)!r}: how many records an epoch has is not known before they are read;"
            " write it in steps or samples"
        )
    samples = every.samples if every.epochs is None else every.epochs * (records or 0)
    return every if samples is None else Interval.parse(f"{max(1, round(samples / size))} steps")


def steps_of(job: Job, records: int | None) -> int | None:
    """Steps of a job whose epochs train on so many records; `train.max_steps` if that is less."""
    of_files = None if records is None else -(-records * job.data.epochs // job.data.batch_size)
    return min((limit for limit in (of_files, job.train.max_steps) if limit is not None), default=None)
