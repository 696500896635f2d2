"""afo: a `model:` job on the `local` runtime, submitted and killed by its own command."""

import time
from pathlib import Path

import psutil
import yaml

from afo.errors import NotFound
from afo.events import types as ev
from afo.rpc.messages import StatusReply
from click_records import SCHEMA, write_files
from live_job import LiveJob, afo
from side_by_side.contender import CHECKPOINT_S, Task
from side_by_side.outcome import Seen

FILES, RECORDS, EPOCHS = 12, 4000, 1000


class Ours:
    """The job; its supervisor is the Application Master."""

    def __init__(self, folder: Path) -> None:
        """Writes data and submits. $AFO_STATE_DIR and $AFO_JOBS_ROOT belong to it alone."""
        write_files(folder / "train", FILES, RECORDS)
        (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
        job = {
            "name": "side by side",
            "roles": {
                "chief": {"memory": "1 GiB"}, "ps": {"instances": 2, "memory": "1 GiB"},
                "worker": {"instances": 2, "memory": "1 GiB"},
            },
            "data": {
                "schema": "schema.yaml", "train": ["train/*"], "sample_id": "sample_id", "batch_size": 32,
                "epochs": EPOCHS,
            },
            "model": {"hidden_units": [8], "embedding": {"dim": 4}},
            "checkpoint": {"every": f"{CHECKPOINT_S:g}s"},
        }  # fmt: skip
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        self._job = LiveJob.submit(folder / "job.yaml", str(folder / "jobs"), "--runtime", "local")
        self._seen: list[Seen] = []
        self._samples: dict[str, int] = {}

    def tend(self) -> None:
        """Asks for the status once."""
        status = self._job.status()
        if status is not None:
            self._seen.append(Seen(time.time(), status.step, self._who(status)))

    def _who(self, status: StatusReply) -> frozenset[int]:
        """Processes whose counters grew since the last time; a new process has counters of its own."""
        grew = set()
        for task in status.tasks:
            made, name = task.progress.samples if task.progress else 0, str(task.task)
            if made and made != self._samples.get(name):
                grew.update(self._pid((task.task.role, task.task.index)))
            self._samples[name] = made
        return frozenset(grew)

    def _pid(self, task: Task) -> set[int]:
        try:
            return {self._job.trainer(*task).pid}
        except (NotFound, psutil.NoSuchProcess, IndexError):
            return set()

    def seen(self) -> list[Seen]:
        """What the answers said."""
        return self._seen

    def saved(self) -> bool:
        """A checkpoint of a step after the first."""
        return any(event.step > 0 for event in self._job.events(ev.CheckpointWritten))

    def trainers(self) -> set[int]:
        """Chief and workers; 0 for one that has no process now."""
        return {pid for task in (("chief", 0), ("worker", 0), ("worker", 1)) for pid in self._pid(task) or {0}}

    def process(self, task: Task) -> psutil.Process:
        """The task's process."""
        return self._job.trainer(*task)

    def kill(self, task: Task, *, moved: bool) -> None:
        """SIGKILL to the process; to its Child as well where it has to move, which takes the container along."""
        self._job.kill(self._job.child(*task) if moved else self._job.trainer(*task))

    def story(self) -> tuple[dict[str, int], str]:
        """Ends of processes and containers after which the AM started the task again."""
        ends: dict[str, int] = {}
        for event in (*self._job.events(ev.ProcessEnded), *self._job.events(ev.TaskEnded)):
            ends[str(event.task)] = ends.get(str(event.task), 0) + 1
        return ends, ""

    def gave_up(self) -> bool:
        """The job has its verdict."""
        return bool(self._job.events(ev.JobFinished))

    def close(self) -> None:
        """`afo kill`, and wait until no process is left."""
        afo("kill", self._job.id)
        self._job.verdict()
        self._job.wait_for_no_process()
