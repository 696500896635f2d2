"""Lines of ended jobs on this machine's disk, so that a server that starts need not read them all again.

A copy and nothing more: a file that is damaged, or of another version, is made anew from the jobs themselves.
"""

import logging
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from afo.formats.decoding import UNDECODABLE
from afo.storage.private_files import make_private
from afo_history_server.model.job_summary import JobSummary

#: What a line holds; a file with another number was written by another version.
_FIELDS = [(field.name, str(field.type)) for field in msgspec.structs.fields(JobSummary)]
FORMAT = zlib.crc32(repr(("bounded", _FIELDS)).encode()) >> 1
_LOG = logging.getLogger(__name__)


class Ended(Struct, frozen=True):
    """The line of a job, and when its directory had changed last."""

    job: JobSummary
    changed: float


class EndedJobs:
    """The file at `path`; without one nothing is kept. Safe for several servers; a call opens and closes it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self) -> dict[str, Ended]:
        """Job id → its line. Empty where there is no file that can be read."""
        if self._path is None:
            return {}
        try:
            with closing(self._open(self._path)) as file:
                return {
                    job_id: Ended(msgspec.json.decode(line, type=JobSummary), changed)
                    for job_id, line, changed in file.execute("SELECT id, line, changed FROM ended")
                }
        except (sqlite3.Error, *UNDECODABLE, OSError) as error:
            self._give_up(self._path, error)
            return {}

    def update(self, ended: Iterable[Ended], gone: Iterable[str]) -> None:
        """Keep these lines and forget those jobs."""
        if self._path is None:
            return
        try:
            with closing(self._open(self._path)) as file, file:
                lines = ((entry.job.job_id, msgspec.json.encode(entry.job), entry.changed) for entry in ended)
                file.executemany("INSERT OR REPLACE INTO ended VALUES (?, ?, ?)", lines)
                file.executemany("DELETE FROM ended WHERE id = ?", ((job_id,) for job_id in gone))
        except (sqlite3.Error, OSError) as error:
            self._give_up(self._path, error)

    def _open(self, path: Path) -> sqlite3.Connection:
        make_private(path.parent)
        # SQLite gives its files beside it the same mode.
        path.touch(0o600)
        path.chmod(0o600)
        file = sqlite3.connect(path, timeout=5.0)
        try:
            file.execute("PRAGMA journal_mode = WAL")
            if file.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                with file:
                    file.execute("DROP TABLE IF EXISTS ended")
                    file.execute("CREATE TABLE ended (id TEXT PRIMARY KEY, line BLOB NOT NULL, changed REAL)")
                    file.execute(f"PRAGMA user_version = {FORMAT}")
        except sqlite3.Error:
            file.close()
            raise
        return file

    def _give_up(self, path: Path, error: Exception) -> None:
        """The server works without it."""
        _LOG.warning("%s, which would make the next start quicker, is of no use: %s", path, error)
        if isinstance(error, sqlite3.OperationalError | OSError):  # locked, no space, no access: no damage
            return
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
