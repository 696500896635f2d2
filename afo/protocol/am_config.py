"""Configuration of the Application Master: a JSON file from the client, nothing secret in it."""

from typing import Literal

from msgspec import Struct

from afo.job import Job
from afo.job.loader import JobSource
from afo.storage.url import ByteRange, part_name


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

    def part(self, split: int) -> ByteRange | None:
        """Which part of its file a split is, None for all of it."""
        return self.train_parts[split] if self.train_parts else None

    @property
    def train_splits(self) -> tuple[str, ...]:
        """What each split is called."""
        return tuple(part_name(url, self.part(split)) for split, url in enumerate(self.train_files))
