"""The command line of afo, and jobs from Python:

from afo_client import submit

job = submit("job.yaml", variables={"dt": "2026-11-20"})
print(job.wait().metrics["auc"])
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afo_client.api import Job, JobFailed, JobKilled, open_job, submit

__all__ = ["Job", "JobFailed", "JobKilled", "open_job", "submit"]


def __getattr__(name: str) -> object:
    # Loaded when asked for: the command imports no more than its verb needs.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from afo_client import api

    return getattr(api, name)
