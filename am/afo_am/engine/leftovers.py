"""Leftovers of a job that has ended: a checkpoint that it was writing."""

import logging

from afo.checkpoint.manifest import remove_unfinished
from afo.errors import AfoError
from afo.job.paths import JobPaths
from afo.storage import deadline
from afo_am.state.job_state import JobState

log = logging.getLogger("afo.am")

#: For all of it. The job has ended, and who waits for its application to end waits for this.
PATIENCE_S = 60.0


def remove_unfinished_checkpoint(state: JobState, paths: JobPaths) -> None:
    """Delete what a save left that did not come to its end, once no process can write it any more.

    A job whose chief comes again has this done by the chief. What goes wrong is only a warning: the job has ended.
    """
    if not state.saving:
        return
    url = paths.checkpoints(state.config.job.checkpoint.dir)
    if running := [str(task.id) for task in state.tasks.values() if task.handle and not task.container_over]:
        log.warning("an unfinished checkpoint may be left in %s: %s may run still", url, ", ".join(running[:3]))
        return
    try:
        removed = deadline.call(PATIENCE_S, lambda: remove_unfinished(url, state.generation))
    except AfoError as error:
        log.warning("an unfinished checkpoint may be left in %s: %s", url, error)
        return
    for directory in removed:
        log.info("removed an unfinished checkpoint: %s", directory)
