"""Paths of a job: every one of them, and nowhere else."""

import re
from dataclasses import dataclass

from afo.errors import DataError, SpecError

_JOB_ID = re.compile(r"(application|local)_[0-9]+_[0-9]+")
#: One name in a directory: nothing that leads elsewhere, and what file systems take.
_NAME = re.compile(r"(?!\.*\Z)[^/\\\x00-\x1f\x7f]{1,255}")


def is_job_id(text: str) -> bool:
    """Whether a text is a job's id."""
    return _JOB_ID.fullmatch(text) is not None


def check_job_id(text: str) -> str:
    """`text` if it is a job's id (`application_1700000000000_0001`, `local_…`). Raises `SpecError` otherwise."""
    if not is_job_id(text):
        raise SpecError(
            f"{text!r} is not a job id; one looks like application_1700000000000_0001 or local_1700000000000_0001"
        )
    return text


def check_name(text: str, where: str) -> str:
    """`text` if it is the name of an entry of a directory: of what a file names, nothing else is opened or deleted.

    Raises `DataError`, which begins with `where`.
    """
    if not _NAME.fullmatch(text):
        raise DataError(
            f"{where}: {text!r} is no name of a file in its own directory, so it was not written by afo; use another"
            " copy of it"
        )
    return text


@dataclass(frozen=True)
class JobPaths:
    """URLs and paths of one job. `root` is the directory of all jobs, local or HDFS.

    <root>/<job id>/
        job.json              the resolved job (`AmConfig` without anything secret); on YARN the client
                              writes it first, alone, for a job may wait long for its AM
        schema.yaml           the feature schema as submitted
        code.json             the user's own code as submitted (`afo.job_dir.code_snapshot`), of a job that has any
        features.json         statistics of its features as submitted (`data.prepare.profile`), of a model's job
        files.json            the training files with their sizes and times, in the order of their row numbers
        address               where the AM listens now (`afo.rpc.client.AmAddress`)
        events/events_<attempt>_<incarnation>.jsonl     the event log, a segment for each start of the AM
        damaged/              lines of the event log that an AM found damaged, as they were found
        verdict.json          final state; written once, when no task runs any more
        kill.json             who had it ended by force, and why (`afo.job_dir.forced_end`), if somebody did
        annotations.json      notes and tags that people gave it later (`afo.job_dir.annotations`), if somebody did
        on_end.json           how `on_end` of the job file ended (`afo.process.bounded_command.Ran`), if there is one
        logs/<role>_<index>/<attempt>/{stdout,stderr}   and logs/am/<attempt>/{stdout,stderr}
        checkpoints/  export/  summaries/
    """

    root: str
    job_id: str

    @property
    def dir(self) -> str:
        """The job's directory."""
        return f"{self.root.rstrip('/')}/{check_job_id(self.job_id)}"

    @property
    def job(self) -> str:
        """The resolved job."""
        return f"{self.dir}/job.json"

    @property
    def schema(self) -> str:
        """The feature schema as submitted."""
        return f"{self.dir}/schema.yaml"

    @property
    def code(self) -> str:
        """The user's own code as submitted."""
        return f"{self.dir}/code.json"

    @property
    def features(self) -> str:
        """Statistics of the features."""
        return f"{self.dir}/features.json"

    @property
    def files(self) -> str:
        """The list of training files (`afo.job_dir.lineage.InputFile`)."""
        return f"{self.dir}/files.json"

    @property
    def address(self) -> str:
        """Where the AM listens now."""
        return f"{self.dir}/address"

    @property
    def events(self) -> str:
        """Directory of the event log's segments."""
        return f"{self.dir}/events"

    def events_segment(self, am_attempt: int, incarnation: int) -> str:
        """One segment; names sort in the order of writing."""
        return f"{self.events}/events_{am_attempt:03d}_{incarnation:05d}.jsonl"

    def damaged_line(self, segment: str, number: int) -> str:
        """Where a damaged line of a segment is kept; lines are counted from 1."""
        return f"{self.dir}/damaged/{segment.rpartition('/')[2]}.line{number}"

    @property
    def verdict(self) -> str:
        """The final state; exists exactly when the job has ended."""
        return f"{self.dir}/verdict.json"

    @property
    def kill(self) -> str:
        """Who had it ended without its AM."""
        return f"{self.dir}/kill.json"

    @property
    def annotations(self) -> str:
        """Notes and tags of after the submission."""
        return f"{self.dir}/annotations.json"

    @property
    def on_end(self) -> str:
        """How the command after the end ended; exists exactly when it has."""
        return f"{self.dir}/on_end.json"

    @property
    def logs(self) -> str:
        """Directory of all logs."""
        return f"{self.dir}/logs"

    def task_logs(self, role: str, index: int, attempt: int) -> str:
        """Directory with `stdout` and `stderr` of one attempt of a task."""
        return f"{self.logs}/{role}_{index}/{attempt}"

    @property
    def am_logs(self) -> str:
        """Directory with the AM's own logs."""
        return f"{self.logs}/am"

    def am_log(self, attempt: int) -> str:
        """Of one application attempt, a local job's only one being 1; on YARN `stdout` is not kept."""
        return f"{self.am_logs}/{attempt}"

    def checkpoints(self, directory: str) -> str:
        """Where checkpoints go: a directory of this job alone, inside of `directory` if its job file names one.

        Jobs that shared one would take each other's checkpoints for their own.
        """
        return f"{directory.rstrip('/')}/{check_job_id(self.job_id)}" if directory else f"{self.dir}/checkpoints"

    @property
    def export(self) -> str:
        """Where the SavedModel goes when the job file names no directory."""
        return f"{self.dir}/export"

    @property
    def summaries(self) -> str:
        """TensorBoard's log directory."""
        return f"{self.dir}/summaries"
