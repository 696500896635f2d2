"""Metadata of a chief's checkpoints beside the model's numbers: its parts, its optimizers, its lineage.

No TensorFlow here.
"""

import contextlib
import hashlib
from pathlib import Path
from typing import Any

from afo import __version__, storage
from afo.checkpoint.manifest import find_manifests, read_manifest
from afo.checkpoint.tensor_map import Section
from afo.errors import DataError, NotFound
from afo.job_dir import lineage
from afo.job_dir.lineage import Ancestry, Lineage, Training
from afo.protocol.train_task import TrainTask
from afo.state.step_clock import StepClock, Ticks

#: Beside the checkpoints of a job that was warm-started.
ANCESTRY = "ancestry.json"


class Origin:
    """Of one job. `begin` or `resume` come before the first checkpoint."""

    def __init__(self, task: TrainTask, rules: dict[str, str], sections: tuple[Section, ...]) -> None:
        self.rules = rules
        self.sections = sections
        #: Step that the job began with.
        self.first_step = 0
        self.clock = StepClock()
        self._task = task
        self._url = storage.join(task.checkpoint_url, ANCESTRY)
        self._files = lineage.read_files(task.files_url) if task.files_url else ()
        self._ancestry = Ancestry()

    def begin(self, ancestry: Ancestry, first_step: int, ticks: Ticks = ()) -> None:
        """The variables are prepared for the first time. `ticks`: of the model that was taken over."""
        self._ancestry, self.first_step, self.clock = ancestry, first_step, StepClock(ticks)
        if ancestry.jobs:
            lineage.write_ancestry(self._url, ancestry)

    def resume(self, first_step: int) -> None:
        """The variables were prepared before, by an earlier process or in an earlier generation."""
        self.first_step = first_step
        self.clock = _clock_at(self._task.checkpoint_url)
        try:
            self._ancestry = lineage.read_ancestry(self._url)
        except NotFound:
            self._ancestry = Ancestry()

    def lineage(self, step: int, positions: Any) -> Lineage:
        """What is in the model now; `positions` [files, 3]."""
        files = lineage.list_applied(self._files, positions)
        own = Training(
            job_id=self._task.job_id, name=self._task.job.name, afo_version=__version__,
            schema_hash=hashlib.blake2b(Path(self._task.schema_file).read_bytes(), digest_size=16).hexdigest(),
            first_step=self.first_step, step=step, files=files, totals=lineage.totals_of(files),
        )  # fmt: skip
        return Lineage(own=own, before=self._ancestry)


def _clock_at(checkpoint_url: str) -> StepClock:
    """As the newest manifest has it that can be read: a damaged one is passed over by the restore, which says so."""
    for found in reversed(find_manifests(checkpoint_url)):
        with contextlib.suppress(DataError, NotFound):
            return StepClock(read_manifest(found.url).clock)
    return StepClock()
