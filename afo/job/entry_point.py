"""The file of the user's own code that a job runs: a model's function (`my_ctr.py:build`), or a whole program."""

from msgspec import Struct
from msgspec.structs import replace

from afo.errors import SpecError
from afo.job import Job


class OwnCode(Struct, frozen=True):
    """A job's one file of code, and its place in the job file."""

    where: str
    path: str


def own_code(job: Job) -> OwnCode | None:
    """The file of `model.entry` or `program`, None for a job of neither."""
    if job.program:
        return OwnCode("$.program", job.program)
    return OwnCode("$.model.entry", split_entry(job.model.entry)[0]) if job.model.entry else None


def with_own_code(job: Job, path: str) -> Job:
    """The same job with its own code at another path."""
    if job.program:
        return replace(job, program=path)
    return replace(job, model=replace(job.model, entry=f"{path}:{split_entry(job.model.entry)[1]}"))


def split_entry(entry: str) -> tuple[str, str]:
    """`my_ctr.py:build` as file and function. Raises `SpecError` for everything else."""
    path, _, function = entry.rpartition(":")
    if path.endswith(".py") and function.isidentifier():
        return path, function
    form = "`my_ctr.py:build`: a Python file, a colon, the name of the function in it that returns the model"
    missing = "names no function" if entry.endswith(".py") else "is no entry"
    raise SpecError(f"{entry!r} {missing}; write {form}")
