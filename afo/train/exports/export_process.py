"""The process beside the chief's that exports: one export at a time, at a lower priority."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from afo.errors import AfoError, DataError, NotFound, StorageError
from afo.formats import decoding
from afo.protocol.offline_task import ENDED, RESULT, OfflineResult, OfflineTask, put_task, template_program

_NICENESS = 10
#: Seconds in which a process that was asked to end has to.
_END_S = 10.0
#: Jobs that export less often keep no process meanwhile.
_KEPT_S = 600.0
_LOG_TAIL = 2000


class ExportProcess:
    """Forks a process for each export (`afo.train.offline.template`); is begun with the first one, and anew where it
    has ended.

        directory/stderr     what is said in the export under way
        directory/task/      the export under way
    """

    def __init__(self, directory: Path, every_s: float) -> None:
        self._directory, self._words = directory, directory / "stderr"
        self._is_kept = every_s <= _KEPT_S
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    @property
    def work_dir(self) -> Path:
        """Of a task."""
        return self._directory / "task"

    @property
    def seconds(self) -> float:
        """Since the export began."""
        return time.monotonic() - self._began

    def begin(self, task: OfflineTask) -> None:
        """Begin an export, after the last one. Raises an AfoError where the machine has no room for one."""
        with _told(self._directory):
            # What cleans a directory of temporary files takes the file with the words, too: nothing would be in it.
            if self._process is None or self._process.poll() is not None or not self._words.exists():
                self._start()
            shutil.rmtree(self.work_dir, ignore_errors=True)
            self.work_dir.mkdir(mode=0o700)
            os.truncate(self._words, 0)
            self._began = time.monotonic()
            assert self._process is not None
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # it has ended, which `result` says
                self._process.stdin.write(f"{put_task(task)}\n".encode())

    def result(self) -> OfflineResult | None:
        """What came of the export; None while it goes on.

        Raises DataError for one that ended otherwise, the error that it met, or StorageError for files that are gone.
        """
        with _told(self._directory):
            return self._result()

    def _result(self) -> OfflineResult | None:
        assert self._process is not None, "an export was begun"
        is_over = self._process.poll() is not None
        if not is_over and not (self.work_dir / ENDED).exists():
            return None
        try:
            result = decoding.read(str(self.work_dir / RESULT), OfflineResult)
        except NotFound as error:
            raise DataError(f"its process ended with {self._code()}; it said: {self._said()}") from error
        finally:
            shutil.rmtree(self.work_dir, ignore_errors=True)
            if is_over or not self._is_kept:
                self.close()
        if result.error is not None:
            raise DataError(": ".join(result.error))
        if result.version is None:
            raise DataError(f"{self.work_dir / RESULT} names no version")
        return result

    def close(self) -> None:
        """End it, and an export under way."""
        if self._process is None:
            return
        process, self._process = self._process, None
        with process:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True, mode=0o700)
        environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
        with self._words.open("ab") as words:
            self._process = subprocess.Popen(
                template_program(), stdin=subprocess.PIPE, stdout=words, stderr=words, env=environment, bufsize=0
            )
        with suppress(psutil.NoSuchProcess):  # it has ended, which `result` says
            psutil.Process(self._process.pid).nice(_NICENESS)

    def _said(self) -> str:
        try:
            return self._words.read_text(errors="replace")[-_LOG_TAIL:]
        except FileNotFoundError:
            return f"nothing that is left, for {self._directory} was removed"

    def _code(self) -> str:
        try:
            return (self.work_dir / ENDED).read_text()
        except FileNotFoundError:
            return str(self._process and self._process.poll())


@contextmanager
def _told(directory: Path) -> Iterator[None]:
    """Errors of the machine as one of ours: an export that fails is no reason for the chief to end."""
    try:
        yield
    except AfoError:
        raise
    except (OSError, psutil.Error) as error:
        raise StorageError(f"the work in {directory} failed: {error}") from error
