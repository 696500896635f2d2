"""The first step of a job on this machine, before anything of it starts: `validate` and `submit` try it.

A process of its own builds the model and takes one step on the first records, bounded in time and memory, for the model
may be anybody's program. Nothing is refused for what only this machine lacks.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from afo.data.io.examples import EMPTY_FILES
from afo.data.prepare.first_records import Part, first_parts, suffix, write_part
from afo.errors import AfoError, StorageError, Unsupported
from afo.job import Data, Job
from afo.job.entry_point import own_code, with_own_code
from afo.ops import library
from afo.process.bounded_command import BoundedCommand
from afo.process.scratch import scratch_folder
from afo.protocol.offline_task import NumberedFile, OfflineTask, Trial
from afo.psplus import server_library
from afo_client.models.offline import Surroundings, run_dealt
from afo_client.submission.inspection import Inspection
from afo_client.terminal.console import size_text

#: Most records of the step, whatever a batch is.
MAX_RECORDS = 1024
#: Largest `environment.files` that are copied. Bytes.
MAX_COPIED = 1 << 30
#: For one step, on a machine that others use.
_THREADS = {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}
#: Longest that building the model and the step may take. Seconds.
TIMEOUT_S = 300.0


def try_job(job: Job, found: Inspection, *, local: bool) -> Inspection:
    """What was found of a job, and its first step, or why that cannot be tried here; `local`: all runs on this machine.

    Raises as `_try_step`.
    """
    if job.program:
        return found
    if reason := _why_not(job, local=local):
        return replace(found, untried=reason)
    trial = _try_step(job, found, local=local)
    return replace(found, trial=trial, warnings=(*found.warnings, *trial.warnings))


def _why_not(job: Job, *, local: bool) -> str:
    """Why this machine cannot try the job's first step; empty if it can."""
    environment = job.environment
    remote = [file for file in environment.files if "://" in file]
    if remote and not local:
        return f"of its files {remote[0]} is not here"
    if not local and sum(map(_size, environment.files)) > MAX_COPIED:
        return f"its files are larger than {size_text(MAX_COPIED)} together"
    if environment.docker is not None:
        return f"its tasks run in the image {environment.docker.image}"
    if environment.is_packed or "://" in environment.python:
        return f"its tasks run with the Python in {environment.python}"
    python = _python(job)
    if shutil.which(python) is None:
        return f"its tasks run with {python}, which is not on this machine"
    return _what_lacks(python, job)


def _what_lacks(python: str, job: Job) -> str:
    """What a step takes, and this interpreter has not."""
    program = "import importlib.util as u; raise SystemExit(not u.find_spec('tensorflow'))"
    try:
        looked = BoundedCommand([python, "-c", program], os.environ, Path.cwd()).wait()
    except OSError as error:
        return f"{python} cannot be run: {error.strerror}"
    if looked.code:
        return f"{python} has no TensorFlow (pip install 'afo[train]')"
    if python == sys.executable and job.model.embedding.storage == "hash_table":
        try:
            library.available()
        except Unsupported as error:
            return str(error)
    return ""


def check_library(job: Job, *, local: bool) -> None:
    """Raises Unsupported for `engine: psplus` where all runs here, with this Python, and its library was not built."""
    if job.engine != "psplus" or not local or _python(job) != sys.executable:
        return
    try:
        server_library.available()
    except Unsupported as error:
        raise Unsupported(f"{error}; or leave `engine: psplus` out") from error


def _try_step(job: Job, found: Inspection, *, local: bool) -> Trial:
    """Raises what makes it fail: SpecError, ModelError, Unsupported, DataError, NotFinite, TrainingError."""
    data = replace(job.data, format=found.format)
    with scratch_folder("afo-trial-") as folder:
        parts = first_parts(found.train[:EMPTY_FILES], data, min(data.batch_size, MAX_RECORDS))
        files = [_write_file(part, data, number, folder) for number, part in enumerate(parts)]
        place = Path(folder, "container")
        place.mkdir()
        sent = job if local else _copy_files(job, place)
        with _restore_names(_names(job, sent, files, parts)):
            (result,) = run_dealt(
                lambda share, schema, work_dir: OfflineTask(
                    kind="try", job=replace(sent, data=data), schema_file=schema, files=share, work_dir=work_dir
                ),
                found.schema_text, files, 1,
                Surroundings(_python(job), place, {**_THREADS, **job.environment.variables}, TIMEOUT_S),
            )  # fmt: skip
    return msgspec.convert(result.trial, Trial)


def _python(job: Job) -> str:
    return job.environment.python or sys.executable


def _write_file(part: Part, data: Data, number: int, folder: str) -> NumberedFile:
    url = str(Path(folder, f"part-{number}{suffix(part.file, data)}"))
    write_part(part, data, url)
    return NumberedFile(number, url)


def _copy_files(job: Job, place: Path) -> Job:
    """The job with copies of its own code and files in one folder, as a container has them.

    What the code finds beside itself here, and nobody sends, is missing then. Raises StorageError.
    """
    code = own_code(job)
    try:
        for file in job.environment.files:
            if os.path.isdir(file):
                shutil.copytree(file, place / Path(file).name)
            elif os.path.isfile(file):
                shutil.copy2(file, place)
        return job if code is None else with_own_code(job, shutil.copy2(code.path, str(place)))
    except OSError as error:
        raise StorageError(
            f"no copies of the job's files to try its first step with: {error}; or --no-trial"
        ) from error


def _size(file: str) -> int:
    """Bytes of a file, or of all below a folder."""
    if not os.path.isdir(file):
        return os.path.getsize(file)
    return sum(os.path.getsize(Path(folder, name)) for folder, _, names in os.walk(file) for name in names)


def _names(job: Job, sent: Job, files: list[NumberedFile], parts: tuple[Part, ...]) -> dict[str, str]:
    """What each copy is a copy of."""
    names = {file.url: part.file.url for file, part in zip(files, parts, strict=True)}
    return names | ({sent.model.entry: job.model.entry} if sent.model.entry != job.model.entry else {})


@contextmanager
def _restore_names(names: dict[str, str]) -> Iterator[None]:
    """Errors name the job's files, not their copies."""
    try:
        yield
    except AfoError as error:
        text = str(error)
        for copy, name in names.items():
            text = text.replace(copy, name)
        raise type(error)(text) from error
