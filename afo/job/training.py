"""Sections about the course of a training: when it ends, what is saved, what is exported."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.formats.ranges import Bound
from afo.formats.units import Duration, Interval
from afo.job.section import PositiveInt, Section
from afo.job.table_limits import MOST_STEPS

#: What the evaluator measures; of a model of several labels also as `auc/<label>`.
METRICS = ("auc", "log_loss", "calibration", "samples")
#: How the weights of embedding tables lie in a SavedModel.
RowType = Literal["float32", "bfloat16", "int8"]
ROW_TYPES: tuple[RowType, ...] = ("float32", "bfloat16", "int8")
#: What looks a key up in it.
TableKind = Literal["frozen", "native"]
TABLE_KINDS: tuple[TableKind, ...] = ("frozen", "native")
#: Metrics that tell a better model from a worse one, and whether more of it is better.
RANKING = {"auc": True, "log_loss": False}


class EarlyStop(Section, frozen=True):
    """Ends the training when the evaluations get no better."""

    metric: Annotated[str, Meta(description="`auc` (more is better) or `log_loss` (less is).")] = "auc"
    patience: Annotated[PositiveInt, Meta(description="Evaluations without a new best one.")] = 3
    min_delta: Annotated[float, Meta(ge=0, description="Least gain that counts.")] = 0.0

    def __post_init__(self) -> None:
        _check_ranking(self.metric)


class Train(Section, frozen=True):
    """When to stop and when to look."""

    max_steps: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_STEPS)] | None, Meta(description="Stop after so many steps of all workers.")
    ] = None
    eval_every: Annotated[
        Interval,
        Meta(description="How often a checkpoint is made for the evaluator: by time, or where the steps of all workers "
             "pass a multiple of so many steps, samples or epochs."),
    ] = Interval("10m")  # fmt: skip
    early_stop: EarlyStop | None = None


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


class Export(Section, frozen=True):
    """Where the SavedModel goes when training ends."""

    dir: Annotated[str, Meta(description="Left out: in the job's own directory.")] = ""
    checkpoint: Annotated[
        Literal["last", "best"] | None,
        Meta(description="Which one is exported; `best` by `metric` of the evaluator. Left out: `best` where there is "
             "an evaluator that is not `optional`, else `last`."),
    ] = None  # fmt: skip
    metric: Annotated[str, Meta(description="What `best` means: `log_loss` (less) or `auc` (more).")] = "log_loss"
    rows: Annotated[
        RowType,
        Meta(description="How embedding tables lie in the SavedModel. `bfloat16` and `int8` take a half and about a "
             "quarter of the bytes; export.md has the cost in AUC, `afo evaluate MODEL --rows int8` measures it."),
    ] = "float32"  # fmt: skip
    tables: Annotated[
        TableKind,
        Meta(description="Hash tables as sorted keys that plain TensorFlow serves (`frozen`), or as tables of afo's "
             "operations, which are several times faster and which who serves must load (`native`; export.md)."),
    ] = "frozen"  # fmt: skip
    require: Annotated[
        dict[str, str],
        Meta(description="The quality gate: a bound for each metric, e.g. `auc: '>=0.74'`, `calibration: 0.9..1.1`, "
             "`coverage_drop: '<=0.1'`. Without it nothing is exported, and the job fails."),
    ] = field(default_factory=dict)  # fmt: skip

    def __post_init__(self) -> None:
        _check_ranking(self.metric)
        allowed = (*METRICS, "auc_drop", "coverage_drop")
        for name, text in self.require.items():
            if name.split("/")[0] not in allowed:
                raise ValueError(f"`require` knows no metric {name!r}; allowed are {', '.join(allowed)}")
            Bound.parse(text)

    @property
    def awaits_evaluation(self) -> bool:
        """Whether it takes the final evaluation to say what is exported."""
        return bool(self.require) or self.checkpoint == "best"


def _check_ranking(metric: str) -> None:
    if metric.split("/")[0] not in RANKING:
        raise ValueError(f"`metric` is {metric!r}; allowed are {', '.join(RANKING)}")
