"""The first step of a job on this machine, before anything of it starts: `validate` and `submit` try it.

A process of its own builds the model and takes one step on the first records, bounded in time, for the model may be
anybody's program.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from afo.data.first_records import Part, first_parts, suffix, write_part
from afo.errors import AfoError
from afo.job import Data, Job
from afo.offline_task import NumberedFile, OfflineTask, Trial
from afo_client.inspection import Inspection
from afo_client.offline import Surroundings, run_dealt

#: Most records of the step, whatever a batch is.
MAX_RECORDS = 1024
#: Longest that building the model and the step may take. Seconds.
TIMEOUT_S = 300.0


def tried(job: Job, found: Inspection) -> Inspection:
    """What was found of a job, and its first step, or why that cannot be tried here. Raises as `try_step`."""
    if job.program:
        return found
    if reason := _why_not(job):
        return replace(found, untried=reason)
    trial = _try_step(job, found)
    return replace(found, trial=trial, warnings=(*found.warnings, *trial.warnings))


def _why_not(job: Job) -> str:
    """Why this machine cannot try the job's first step; empty if it can."""
    environment = job.environment
    if environment.docker is not None:
        return f"its tasks run in the image {environment.docker.image}"
    if environment.is_packed or "://" in environment.python:
        return f"its tasks run with the Python in {environment.python}"
    python = _python(job)
    if shutil.which(python) is None:
        return f"its tasks run with {python}, which is not on this machine"
    looked = subprocess.run(
        [python, "-c", "import importlib.util as u; raise SystemExit(not u.find_spec('tensorflow'))"],
        capture_output=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return f"{python} has no TensorFlow (pip install 'afo[train]')" if looked.returncode else ""


def _try_step(job: Job, found: Inspection) -> Trial:
    """Raises what makes it fail: SpecError, ModelError, Unsupported, DataError, NotFinite, TrainingError."""
    data = replace(job.data, format=found.format)
    with tempfile.TemporaryDirectory(prefix="afo-trial-") as folder:
        parts = first_parts(found.train, data, min(data.batch_size, MAX_RECORDS))
        files = [_written(part, data, number, folder) for number, part in enumerate(parts)]
        cwd = _beside(job, Path(folder, "cwd"))
        with _named_as_they_are(files, parts):
            result, = run_dealt(
                lambda share, schema, work_dir: OfflineTask(
                    kind="try", job=replace(job, data=data), schema_file=schema, files=share, work_dir=work_dir
                ),
                found.schema_text, files, 1, Surroundings(_python(job), cwd, job.environment.variables, TIMEOUT_S),
            )  # fmt: skip
    return msgspec.convert(result.trial, Trial)


def _python(job: Job) -> str:
    return job.environment.python or sys.executable


def _written(part: Part, data: Data, number: int, folder: str) -> NumberedFile:
    url = str(Path(folder, f"part-{number}{suffix(part.file, data)}"))
    write_part(part, data, url)
    return NumberedFile(number, url)


def _beside(job: Job, folder: Path) -> Path:
    """A working directory with the job's own files, as a container has them; those in HDFS are not fetched."""
    folder.mkdir()
    for file in job.environment.files:
        if os.path.exists(file):
            (folder / Path(file).name).symlink_to(file)
    return folder


@contextmanager
def _named_as_they_are(files: list[NumberedFile], parts: tuple[Part, ...]) -> Iterator[None]:
    """Errors name the job's files, not the copies of their first records."""
    try:
        yield
    except AfoError as error:
        text = str(error)
        for file, part in zip(files, parts, strict=True):
            text = text.replace(file.url, part.file.url)
        raise type(error)(text) from error
