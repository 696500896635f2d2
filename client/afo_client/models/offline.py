"""Work with a saved model on this machine: processes that load TensorFlow, which the command itself does not."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from afo import errors, storage
from afo.checkpoint.manifest import TABLES
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import read_head, text_hint
from afo.errors import AfoError, DataError, NoSpaceLeft, NotFound, TrainingError, has_no_space
from afo.formats import decoding, json_file
from afo.job import Job, RowType, TableKind
from afo.process.memory import available_memory
from afo.process.scratch import scratch_folder
from afo.protocol.am_config import AmConfig
from afo.protocol.offline_task import RESULT, Kind, NumberedFile, OfflineResult, OfflineTask, write_task
from afo.site.config import Config, user_name
from afo.storage.regular_file import read_end
from afo_client.models.model_ref import ModelRef, find_model
from afo_client.terminal.console import say, size_text

#: What a process of each kind was to do.
_PURPOSE: dict[Kind, str] = {"recount": "recount the files", "try": "try the first step"}
#: What became of hash tables that do not fit into memory, but for an export.
_IN_FILES: dict[Kind, str] = {"evaluate": "were looked up in files", "predict": "were looked up in files"}
#: Last lines of a process's own words that are shown when it dies.
_TAIL = 20
#: Of which they are taken: a model may print any amount.
_TAIL_BYTES = 64 << 10
_POLL_S = 0.05


@dataclass(frozen=True)
class SavedModel:
    """A checkpoint with the job and the schema that it takes to compute with it."""

    ref: ModelRef
    job: Job
    schema: bytes


def saved_model(config: Config, named: str | None) -> SavedModel:
    """Raises `NotFound` where the checkpoint, or the job that wrote it, is gone. Says whose code the model is."""
    model = find_model(config, named)
    ref = model.job(config)
    try:
        submitted = json_file.fetch(ref.paths.job, AmConfig)
        found = SavedModel(model, submitted.job, decoding.whole(ref.paths.schema))
    except NotFound as error:
        raise NotFound(
            f"{model.url} was written by {ref.job_id}, whose job and schema it takes to use it; they lie in "
            f"{ref.paths.dir}, or in another `jobs_root` (AFO_JOBS_ROOT): {error}"
        ) from error
    if submitted.job.model.entry and submitted.user != user_name():
        say(f"this model of {submitted.user} is a program, {submitted.job.model.entry}, which runs here as you")
    return found


def input_files(globs: Sequence[str], number: int = 0) -> list[NumberedFile]:
    """The files of some globs, numbered from `number` on. Raises `NotFound`, `DataError` where the first is text."""
    absolute = [pattern if "://" in pattern else os.path.abspath(os.path.expanduser(pattern)) for pattern in globs]
    splits = find_splits(absolute)
    if hint := text_hint(read_head(splits[0].url)):
        raise DataError(f"{splits[0].url} holds no records{hint}")
    return [NumberedFile(place, file.url) for place, file in enumerate(splits, number)]


def run(
    model: SavedModel, kind: Kind, files: Sequence[NumberedFile] = (), output: str = "", processes: int = 1,
    rows: RowType | None = None, tables: TableKind = "frozen", memory: int | None = None, full_every: int = 0,
    keep: int = 0, user_features: tuple[str, ...] = (),
) -> list[OfflineResult]:  # fmt: skip
    """Deal the files out to `processes`; a result of each. Raises the error of the first that fails.

    `rows`: how embedding tables are kept; None: as the export that was named keeps them, else as in training.
    `tables`, `full_every`, `keep`, `user_features`: of an export (`OfflineTask`). `memory`: bytes that each process may
    take; None: all together what is available.
    """
    each = memory or available_memory() // max(1, min(processes, len(files)))

    def task(share: tuple[NumberedFile, ...], schema_file: str, work_dir: str) -> OfflineTask:
        return OfflineTask(
            kind=kind, job=model.job, schema_file=schema_file, manifest=model.ref.url, files=share, output=output,
            rows=rows or model.ref.rows, tables=tables, memory=each, work_dir=work_dir, full_every=full_every,
            keep=keep, user_features=user_features,
        )  # fmt: skip

    with _explains_room(model.ref):
        results = run_dealt(task, model.schema, files, processes)
    if any(result.in_files for result in results):
        limit = "--memory" if memory else "what is available"
        say(
            f"hash tables {_IN_FILES.get(kind, 'went through files')}: in memory they might take more than"
            f" {size_text(each)} ({limit})"
        )
    return results


@contextmanager
def _explains_room(ref: ModelRef) -> Iterator[None]:
    """Says of a full disk what lies there."""
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        if not has_no_space(error) or folder not in str(error):
            raise
        raise NoSpaceLeft(
            f"{error}. Files of a run lie in $TMPDIR ({folder}) and are removed with it: each of --processes may need"
            f" twice the checkpoint's {size_text(_size_of(ref))}, and room for an export"
        ) from error


def _size_of(ref: ModelRef) -> int:
    """Bytes of a checkpoint's own files; what cannot be listed does not count."""
    directory, size = storage.join(storage.parent(ref.url), ref.manifest.directory), 0
    for place in (directory, storage.join(directory, TABLES)):
        with suppress(AfoError):
            size += sum(entry.size for entry in storage.list_dir(place))
    return size


@dataclass(frozen=True)
class Surroundings:
    """What a process runs with: its interpreter, working directory, variables above the command's own, and how long."""

    python: str = sys.executable
    cwd: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


def run_dealt(
    task: Callable[[tuple[NumberedFile, ...], str, str], OfflineTask], schema: bytes, files: Sequence[NumberedFile],
    processes: int, surroundings: Surroundings = Surroundings(),
) -> list[OfflineResult]:  # fmt: skip
    """Deal the files out to `processes`; a result of each. Raises the error of the first that fails.

    `task` makes one of its share of the files, the file of the schema, and its directory.
    """
    count = max(1, min(processes, len(files)))
    with scratch_folder("afo-") as directory:
        schema_file = Path(directory, "schema.yaml")
        schema_file.write_bytes(schema)
        work_dirs = [Path(directory, str(number)) for number in range(count)]
        for work_dir in work_dirs:
            work_dir.mkdir(mode=0o700)
        shares = [tuple(files[number::count]) for number in range(count)]
        tasks = [
            task(*arguments) for arguments in zip(shares, [str(schema_file)] * count, map(str, work_dirs), strict=True)
        ]
        return _run_all(tasks, surroundings)


def _run_all(tasks: list[OfflineTask], surroundings: Surroundings) -> list[OfflineResult]:
    running = [(task, _start(task, len(tasks), surroundings)) for task in tasks]
    try:
        return [_result(task, process, surroundings.timeout_s) for task, process in running]
    finally:
        for _, process in running:
            _end(process)


def _start(task: OfflineTask, among: int, surroundings: Surroundings) -> "subprocess.Popen[bytes]":
    program = write_task(task, surroundings.python)
    threads = str(max(1, len(os.sched_getaffinity(0)) // among))
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_NUM_INTRAOP_THREADS": threads, **os.environ}
    environment |= surroundings.variables
    with Path(task.work_dir, "stderr").open("wb") as words:
        return subprocess.Popen(
            program, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment,
            cwd=surroundings.cwd, start_new_session=True,
        )  # fmt: skip


def _result(task: OfflineTask, process: "subprocess.Popen[bytes]", timeout_s: float | None) -> OfflineResult:
    in_time = _has_ended(process, timeout_s)
    _end(process)
    if not in_time:
        raise TrainingError(
            f"the process that was to {_purpose(task)} had not ended after {timeout_s:g} s{_tail(task)}"
        )
    path = Path(task.work_dir, RESULT)
    if not path.exists():
        tail = _tail(task)
        advice = "; install it with: pip install 'afo[train]'" if "No module named 'tensorflow'" in tail else ""
        raise TrainingError(f"the process that was to {_purpose(task)} {_end_of(process.returncode)}{advice}{tail}")
    result = msgspec.json.decode(path.read_bytes(), type=OfflineResult)
    if result.error is not None:
        raise _error(*result.error)
    return result


def _has_ended(process: "subprocess.Popen[bytes]", timeout_s: float | None) -> bool:
    """Wait for its end, but leave it to `_end`: until then its number names its group and no other."""
    flags, deadline = os.WEXITED | os.WNOWAIT, time.monotonic() + (timeout_s or 0.0)
    if timeout_s is None:
        os.waitid(os.P_PID, process.pid, flags)
        return True
    while os.waitid(os.P_PID, process.pid, flags | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it with what it has started itself: a model may be anybody's program."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_of(code: int) -> str:
    """An exit code without a result is of code that ended its own process."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code} and left no result"


def _purpose(task: OfflineTask) -> str:
    of = f" of {task.job.model.entry or 'the model'}" if task.kind == "try" else ""
    return f"{_PURPOSE.get(task.kind, task.kind)}{of}"


def _tail(task: OfflineTask) -> str:
    """The last of its own words, in lines below."""
    words = read_end(Path(task.work_dir, "stderr"), _TAIL_BYTES).decode(errors="replace").splitlines()[-_TAIL:]
    return "".join(f"\n{line}" for line in words)


def _error(name: str, text: str) -> AfoError:
    kind = getattr(errors, name, TrainingError)
    return kind(text) if isinstance(kind, type) and issubclass(kind, AfoError) else TrainingError(text)
