"""Configuration of the Application Master: a JSON file from the client, nothing secret in it."""

from typing import Literal

from msgspec import Struct

from afo.job import Job
from afo.job.loader import JobSource
from afo.protocol.input_file import InputFile
from afo.storage.url import ByteRange


class AmConfig(Struct, frozen=True, kw_only=True):
    """One submission. `python` and `files` are as seen inside a container."""

    job: Job
    user: str
    #: Whose keytab lies beside the AM's files, by which it obtains delegation tokens; '' without one.
    principal: str = ""
    #: Version of afo that submitted; the AM and every Child compare it with their own.
    afo_version: str
    runtime: Literal["local", "yarn"]
    #: Directory of all jobs (see `afo.job.paths.JobPaths`); the id comes from YARN, or is given for `local`.
    jobs_root: str
    job_id: str = ""
    #: Training and evaluation files, resolved at submit. A training file is named once for each of its splits; their
    #: order gives the splits their numbers.
    train_files: tuple[str, ...]
    #: Size in bytes and time of the last change (seconds since 1970) of the training file of each split.
    train_stats: tuple[tuple[int, float], ...] = ()
    #: Which part of its file each split is, None for all of it; empty where no file is cut.
    train_parts: tuple[ByteRange | None, ...] = ()
    #: No training files come beyond these while the job runs.
    train_closed: bool = True
    eval_files: tuple[str, ...] = ()
    #: Local paths inside the container of the AM and of the Children: secret and schema as localised.
    secret_file: str
    schema_file: str
    python: str = ""
    submitted: float = 0.0
    #: The job file behind `job`; None for a submission that had none.
    source: JobSource | None = None
    #: Of `afo submit --idempotency-key`, hashed; '' without.
    once: str = ""

    @property
    def splits(self) -> list[InputFile]:
        """The file or part of each split as it was at submit; of size 0 where that was not looked at."""
        stats = self.train_stats or ((0, 0.0),) * len(self.train_files)
        parts = self.train_parts or (None,) * len(self.train_files)
        return [InputFile(url, *stat, part) for url, stat, part in zip(self.train_files, stats, parts, strict=True)]
