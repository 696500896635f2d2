"""The section `checkpoint`: where the model is saved, and what it begins with."""

from typing import Annotated, Literal

from msgspec import Meta

from afo.formats.units import Duration
from afo.job.section import PositiveInt, Section


class WarmStart(Section, frozen=True):
    """The model that the training begins with."""

    sources: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Directories of checkpoints or manifests; the first that holds one is taken."),
    ]
    missing: Annotated[Literal["fail", "fresh"], Meta(description="What to do when none holds a checkpoint.")] = "fail"


class Checkpoint(Section, frozen=True):
    """Where the model is saved while it trains."""

    dir: Annotated[str, Meta(description="Gets a directory for each job; left out: in the job's own.")] = ""
    every: Duration = Duration(600)
    full_every: Annotated[
        int,
        Meta(ge=1, le=200, description="Of so many checkpoints one holds all rows of hash tables, each other those "
             "that changed since the one before, which stays as long as it is needed. Smaller files; a longer way "
             "back."),
    ] = 1  # fmt: skip
    keep: PositiveInt = 3
    warm_start: Annotated[
        str | WarmStart | None,
        Meta(description="A checkpoint to begin with, e.g. yesterday's `hdfs://ns1/models/ctr/{{dt-1}}`."),
    ] = None
    on_ps_loss: Annotated[
        Literal["rollback", "partial"],
        Meta(description="After the loss of a parameter server all return to the newest checkpoint and the data are "
             "read again from there (`rollback`), or it alone does, and its updates since then are lost (`partial`)."),
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
