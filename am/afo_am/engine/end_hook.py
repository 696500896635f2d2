"""`on_end` of the job file: a command of the user's, run by the Application Master after the verdict is written.

It survives the client and every task. How it ended is kept in the job's `on_end.json`, and it is not run again after
that; an AM that dies before runs it again when it comes back. A job that is ended by force, without its AM, has none.
"""

import logging
import os
import sys
import tempfile
from pathlib import Path

from afo.events.types import JobFinished
from afo.formats import json_file
from afo.job import Job
from afo.job.paths import JobPaths
from afo.process.bounded_command import BoundedCommand, Ran
from afo_am.runtime.master_log import DESCRIPTOR

log = logging.getLogger("afo.am")

VERDICT_FILE = "verdict.json"


def run_end_hook(job: Job, finished: JobFinished, paths: JobPaths) -> Ran | None:
    """Run it for a minute at most, in a directory that holds `verdict.json`. Output and failures go to the AM's log.

    How it ends changes nothing: the job has ended. None if no process could be started.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="afo-on-end-") as folder:
            Path(folder, VERDICT_FILE).write_bytes(json_file.encode(finished))
            ran = BoundedCommand(job.on_end, _environment(job, finished, paths), Path(folder)).wait()
    except (OSError, ValueError) as error:
        log.error("on_end: cannot start %s: %s", job.on_end[0], error)
        return None
    _report(ran)
    return ran


def _report(ran: Ran) -> None:
    for line in ran.output.splitlines():
        log.info("on_end: %s", line)
    if ran.truncated:
        log.warning("on_end: it wrote more than is kept")
    if ran.late:
        log.error("on_end: killed, as it took too long")
    else:
        log.log(logging.INFO if ran.code == 0 else logging.ERROR, "on_end: ended with %d", ran.code)


def _environment(job: Job, finished: JobFinished, paths: JobPaths) -> dict[str, str]:
    """The AM's own, with the job's facts; `python` is the interpreter that the AM runs with."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    return {
        **_inherit_environment(), "PATH": path, "AFO_JOB_ID": paths.job_id, "AFO_JOB_NAME": job.name,
        "AFO_JOB_DIR": paths.dir, "AFO_JOB_STATE": finished.state, "AFO_JOB_CAUSE": finished.cause,
    }  # fmt: skip


def _inherit_environment() -> dict[str, str]:
    """Without the number of a descriptor that the command does not have, and could take for one of its own."""
    return {name: value for name, value in os.environ.items() if name != DESCRIPTOR}
