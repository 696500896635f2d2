"""A smoke run: the job as it is, but over a few records, once, with one worker, and leaving nothing where it would."""

from typing import Literal

from msgspec.structs import replace

from afo.errors import UsageError
from afo.job import Elastic, Job, Restart, RestartBudget, RoleSpec

_NAME_LENGTH = 200
_NO_RESTARTS = RestartBudget(max=0)


def smoke_job(job: Job, limit: int) -> Job:
    """The smoke run of `job` over the first `limit` records. Its data are still those of the job.

    One worker, no restarts: the first fault is shown. The parameter servers stay as they are, as the model is as large.
    Checkpoints and model go into the job's own directory; what would tell others of a new model, or keep one back
    that has seen too little, is left out. Raises `UsageError` for a program, which reads what it likes.
    """
    if limit < 1:
        raise UsageError(f"a smoke run over {limit} records is none; give 1 or more")
    if job.program:
        raise UsageError("--limit: a `program` reads its data by itself; give it fewer by its `args`")
    ending = f" (first {limit})"
    return replace(
        job,
        name=job.name[: _NAME_LENGTH - len(ending)] + ending,
        roles={role: _single(spec) if role == "worker" else spec for role, spec in job.roles.items()},
        data=replace(job.data, epochs=1, wait_for=""),
        checkpoint=replace(job.checkpoint, dir=""),
        export=replace(job.export, dir="", checkpoint=_choose_checkpoint(job), require={}),
        restart=Restart(chief=_NO_RESTARTS, worker=_NO_RESTARTS, ps=_NO_RESTARTS, evaluator=_NO_RESTARTS),
        on_end=(),
    )


def _choose_checkpoint(job: Job) -> Literal["last", "best"] | None:
    """The last one, which waits for no evaluation. With early stopping, of which a model's callbacks may say the same,
    as the job says."""
    return job.export.checkpoint if job.train.early_stop else "last"


def _single(spec: RoleSpec) -> RoleSpec:
    return replace(spec, instances=Elastic(min=1, max=1) if isinstance(spec.instances, Elastic) else 1)
