"""A job's first step on its first records, with all variables in this process: what would fail later fails here.

The model, its input and its step are those of a worker; one server's part of them runs beside it.
"""

import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import tensorflow as tf

from afo.data.pipeline.batcher import Batch, TrainingInput
from afo.data.pipeline.split_reader import Lease
from afo.errors import DataError
from afo.job import Job
from afo.ops import library
from afo.protocol.offline_task import NumberedFile, Trial
from afo.state import variables
from afo.state.parameters import Parameter, Parameters
from afo.train.failed_step import explain_failure
from afo.train.setup import JobParts
from afo.train.step import prepare_function, step_function

#: Bytes of dense tables with their slots above which the step is built and not run.
MAX_BYTES = 1 << 30
#: Memory of TensorFlow's libraries and threads. Bytes.
OWN_BYTES = 2 << 30
#: How long one look for a batch lasts; who started this process ends it when all takes too long. Seconds.
_LOOK_S = 5.0


def bound_memory(job: Job) -> None:
    """Let this process have what a worker's container has, and what TensorFlow itself takes."""
    limit = (int(job.roles["worker"].memory) << 20) + OWN_BYTES
    _, allowed = resource.getrlimit(resource.RLIMIT_DATA)
    if allowed == resource.RLIM_INFINITY or limit < allowed:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def run(parts: JobParts, files: Sequence[NumberedFile], scratch: Path) -> Trial:
    """Build the model and its step, and apply the first batch of `files` to it.

    Raises what a worker would: SpecError, ModelError, Unsupported, DataError, NotFinite.
    """
    variables.keep_here()
    library.load_if_present()
    parameters = parts.parameters(1, len(files))
    prepare = prepare_function(parts.model, parts.parser, 1)
    step = step_function(parts.model, parameters, prepare)
    step.get_concrete_function()
    too_large = sum(map(_bytes, parameters.trained)) > MAX_BYTES
    batch = _first_batch(parts, files, scratch, prepare)
    if too_large:
        return Trial(samples=batch.size, warnings=parts.model.warnings)
    parts.model.initialize(parameters)
    try:
        loss = float(step(batch.inputs, tf.zeros([], tf.int64)).loss)
    except tf.errors.OpError as error:
        raise _reason(error, parts, parameters, batch, files) from error
    parts.model.try_answers(batch.inputs.inputs, parameters)
    return Trial(samples=batch.size, loss=loss, warnings=parts.model.warnings)


def _bytes(parameter: Parameter) -> int:
    values = [variable.shape for shard in parameter.shards for variable in (shard.weights, *shard.slots)]
    return sum(4 * int(tf.TensorShape(shape).num_elements()) for shape in values)


def _first_batch(
    parts: JobParts, files: Sequence[NumberedFile], scratch: Path, prepare: Callable[..., object]
) -> Batch:
    with TrainingInput(_leases(files), parts.schema, parts.job.data, scratch, parts.parser, prepare) as reading:
        while (batch := reading.get(_LOOK_S)) != "end":
            if isinstance(batch, Batch) and batch.size:
                return batch
    raise DataError("none of the first records is left to train on: `data.negative_sampling` or bad records took all")


def _leases(files: Sequence[NumberedFile]) -> Callable[[], Lease | Literal["wait", "end"]]:
    left = iter(files)

    def next_split() -> Lease | Literal["wait", "end"]:
        file = next(left, None)
        return "end" if file is None else Lease(file.number, 0, file.url)

    return next_split


def _reason(
    error: tf.errors.OpError, parts: JobParts, parameters: Parameters, batch: Batch,
    files: Sequence[NumberedFile],
) -> Exception:  # fmt: skip
    names = [files[int(split)].url for split in batch.inputs.origin.files]
    found = explain_failure(error, parts.model, parameters, batch.inputs, 1, names, parts.job.model.entry)
    return error if found is None else found
