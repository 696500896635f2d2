"""The section `checkpoint`: where the model is saved, and what it begins with."""

from typing import Annotated, Literal

from msgspec import Meta

from afo.formats.units import Duration
from afo.job.section import PositiveInt, Section


class WarmStart(Section, frozen=True):
    """The model with which training begins."""

    sources: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Directories of checkpoints or manifests; the first that holds one is taken."),
    ]
    missing: Annotated[Literal["fail", "fresh"], Meta(description="What to do when none holds a checkpoint.")] = "fail"


class Checkpoint(Section, frozen=True):
    """Where the model is saved while it trains."""

    dir: Annotated[str, Meta(description="Gets a subdirectory for each job; left out: the job's own directory.")] = ""
    every: Duration = Duration(600)
    full_every: Annotated[
        int,
        Meta(ge=1, le=200, description="One in so many checkpoints holds all rows of hash tables; the others those "
             "that changed since the one before, which is kept as long as it is needed. Smaller files, but a slower "
             "restore."),
    ] = 1  # fmt: skip
    keep: PositiveInt = 3
    warm_start: Annotated[
        str | WarmStart | None,
        Meta(description="A checkpoint to begin with, e.g. yesterday's `hdfs://ns1/models/ctr/{{dt-1}}`."),
    ] = None
    on_ps_loss: Annotated[
        Literal["rollback", "partial"],
        Meta(description="After the loss of a parameter server all go back to the newest checkpoint and the data are "
             "read again from there (`rollback`), or only the lost one does, without its updates since (`partial`)."),
    ] = "rollback"  # fmt: skip

    @property
    def keeps_survivors(self) -> bool:
        """Whether parameter servers go on with what they hold when another is lost."""
        return self.on_ps_loss == "partial"

    @property
    def warm(self) -> WarmStart | None:
        """`warm_start` in its long form."""
        if isinstance(self.warm_start, str):
            return WarmStart(sources=(self.warm_start,)) if self.warm_start else None
        return self.warm_start
