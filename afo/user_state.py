"""What the client keeps between two commands in a directory of the user: secrets, submissions, the last job."""

import os
import re
from pathlib import Path

from afo.errors import NotFound, PermissionDenied
from afo.paths import checked_job_id
from afo.rpc.wire import new_secret, read_secret

#: Submissions that are kept: they matter until the job's own directory holds them.
_KEPT = 100


class UserState:
    """`folder` is mode 0700, every file in it 0600."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last = folder / "last-job"

    def secret_file(self, job_id: str) -> Path:
        """Where this user's copy of a job's secret lies, there or not."""
        return self.folder / "secrets" / checked_job_id(job_id)

    def keep_secret(self, job_id: str, secret: str) -> None:
        """Keep the secret of a job submitted by this user."""
        self._write(self.secret_file(job_id), secret)

    def secret(self, job_id: str) -> str | None:
        """The job's secret, None if another user or machine submitted it."""
        file = self.secret_file(job_id)
        return read_secret(file) if file.exists() else None

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
        """Keep what was submitted, an encoded `afo.am_config.AmConfig`; the newest 100 stay."""
        folder = self.folder / "submissions"
        self._write(folder / checked_job_id(job_id), encoded.decode())
        for file in sorted(folder.iterdir(), key=_age)[:-_KEPT]:
            file.unlink(missing_ok=True)

    def submission(self, job_id: str) -> bytes | None:
        """What this user submitted as `job_id`, None if that was elsewhere or long ago."""
        try:
            return (self.folder / "submissions" / checked_job_id(job_id)).read_bytes()
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
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
                out.write(text)
            os.replace(temporary, file)
        except OSError as error:
            what = f"cannot write {file}: {error.strerror}; set AFO_STATE_DIR to a writable directory"
            raise PermissionDenied(what) from error


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
