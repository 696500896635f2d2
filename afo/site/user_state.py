"""State of the client between two commands, in a directory of the user: secrets, submissions, the last job."""

import functools
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from afo.errors import AfoError, NotFound, unwritable
from afo.job.paths import check_job_id
from afo.rpc.wire import new_secret, read_secret
from afo.storage.private_files import make_private, open_to_others, write_private

_LOG = logging.getLogger(__name__)
#: Submissions that are kept: they matter until the job's own directory holds them.
_KEPT = 100
#: What others must not read. `jobs`, and the server's log and index, hold what a job's own directory protects.
_SECRET = ("secrets", "secrets/*", "submissions", "submissions/*", "history", "history/token*")


class UserState:
    """`folder` is made with mode 0700, every file in it with 0600; one that others can enter is told of when used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last = folder / "last-job"

    def make(self) -> None:
        """Make the folder, if it is not there. Raises `afo.errors.unwritable`."""
        try:
            make_private(self.folder)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        _tell_if_open(self.folder)

    def make_above(self, directory: str) -> None:
        """As `make`, if that directory lies in the folder: making it would make the folder as open as the umask is."""
        if Path(directory).is_relative_to(self.folder):
            self.make()

    def open_to_others(self) -> dict[Path, int]:
        """Permission bits of the folder and of what is secret in it, where others than the owner have any."""
        return open_to_others(
            (self.folder, *(path for pattern in _SECRET for path in sorted(self.folder.glob(pattern))))
        )

    def secret_file(self, job_id: str) -> Path:
        """Where this user's copy of a job's secret lies, there or not."""
        return self.folder / "secrets" / check_job_id(job_id)

    def keep_secret(self, job_id: str, secret: str) -> None:
        """Keep the secret of a job submitted by this user."""
        self._write(self.secret_file(job_id), secret)

    @contextmanager
    def hold_secret(self, secret: str) -> Iterator[Callable[[str], None]]:
        """Write a secret before its job has an id; what is given is called with the id, else the secret goes again.

        A job whose secret is lost can be ended by nobody, so there has to be room for it before the job starts.
        """
        held = self.folder / "secrets" / f".{new_secret()[:16]}"
        self._write(held, secret)
        try:
            yield lambda job_id: os.replace(held, self.secret_file(job_id))
        finally:
            held.unlink(missing_ok=True)

    def secret(self, job_id: str) -> str | None:
        """The job's secret, None if another user or machine submitted it."""
        file = self.secret_file(job_id)
        if not file.exists():
            return None
        _tell_if_open(self.folder)
        return read_secret(file)

    def forget_secret(self, job_id: str) -> None:
        """The job has ended: nobody listens for the secret any more."""
        self.secret_file(job_id).unlink(missing_ok=True)

    def token_file(self, foreground: bool = False) -> Path:
        """Where the token of this user's history server lies; a server in the foreground has its own."""
        return self.folder / "history" / ("token-foreground" if foreground else "token")

    def make_token(self, foreground: bool = False) -> None:
        """A new one: who held the one before is signed out."""
        self._write(self.token_file(foreground), new_secret())

    def keep_submission(self, job_id: str, encoded: bytes) -> None:
        """Keep what was submitted, an encoded `afo.protocol.am_config.AmConfig`; the newest 100 stay."""
        folder = self.folder / "submissions"
        self._write(folder / check_job_id(job_id), encoded.decode())
        for file in sorted(folder.iterdir(), key=_age)[:-_KEPT]:
            file.unlink(missing_ok=True)

    def submission(self, job_id: str) -> bytes | None:
        """What this user submitted as `job_id`, None if that was elsewhere or long ago."""
        try:
            return (self.folder / "submissions" / check_job_id(job_id)).read_bytes()
        except OSError:
            return None

    def submissions(self) -> list[str]:
        """Jobs whose submissions are kept, newest first."""
        folder = self.folder / "submissions"
        files = sorted(folder.glob("[!.]*"), key=_age, reverse=True) if folder.is_dir() else []
        return [file.name for file in files]

    def remember_last(self, job_id: str) -> None:
        """The job that is meant when none is named."""
        self._write(self._last, job_id)

    def last_job(self) -> str | None:
        """The job submitted last, None if there is none."""
        try:
            text = self._last.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return None
        return text if re.fullmatch(r"(application|local)_\d+_\d+", text) else None

    def _write(self, file: Path, text: str) -> None:
        self.make()
        try:
            make_private(file.parent)
            write_private(file, text.encode())
        except OSError as error:
            raise _unwritable(file, error) from error


def read_token(file: Path) -> str:
    """The token of a history server. Raises `NotFound` or `PermissionDenied`."""
    if not file.exists():
        raise NotFound(f"there is no token of a history server in {file}; `afo history start` makes one")
    return read_secret(file)


def _age(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:  # another command has tidied up, too
        return 0


def _unwritable(path: Path, error: OSError) -> AfoError:
    return unwritable(error, f"cannot write {path}: {error.strerror}; set AFO_STATE_DIR to a writable directory")


@functools.cache
def _tell_if_open(folder: Path) -> None:
    """Once for each folder. It is not made tighter here: $AFO_STATE_DIR may name what serves others, too."""
    for path, mode in open_to_others([folder]).items():
        _LOG.warning(
            "%s holds secrets of your jobs and is open to others (mode %04o); close it: chmod 700 %s", path, mode, path
        )
