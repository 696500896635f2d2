"""The section `export`: which checkpoint becomes a SavedModel, in which form, and the quality gate before it."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.formats.units import Bound, Duration
from afo.job.section import PositiveInt, Section
from afo.job.training import METRICS, check_ranking

#: How the weights of embedding tables lie in a SavedModel.
RowType = Literal["float32", "bfloat16", "int8"]
ROW_TYPES: tuple[RowType, ...] = ("float32", "bfloat16", "int8")
#: What looks a key up in it.
TableKind = Literal["frozen", "native", "mapped"]
TABLE_KINDS: tuple[TableKind, ...] = ("frozen", "native", "mapped")


#: A served table has so many files on top of each other at most (kMostLayers of afo/ops/serving).
MOST_FULL_EVERY = 64
#: What the processes that export take beside the chief's, in its container: two with TensorFlow, and a model without
#: its hash tables. MiB; 520 were measured with a small model.
BESIDE_MIB = 1024
#: Evaluations of a window; the Application Master holds their metrics.
MOST_WINDOW = 1000


class Export(Section, frozen=True):
    """Where the SavedModel goes, and when."""

    dir: Annotated[
        str,
        Meta(description="Left out: in the job's own directory. Jobs with the same one replace each other's models, "
             "and each succeeds."),
    ] = ""  # fmt: skip
    checkpoint: Annotated[
        Literal["last", "best"] | None,
        Meta(description="Checkpoint to export; `best` by the evaluator's `metric`. Left out: `best` if there is "
             "an evaluator that is not `optional`, else `last`."),
    ] = None  # fmt: skip
    metric: Annotated[str, Meta(description="Metric for `best`: `log_loss` (lowest) or `auc` (highest).")] = "log_loss"
    rows: Annotated[
        RowType,
        Meta(description="Format of embedding tables in the SavedModel. `bfloat16` and `int8` take half and about a "
             "quarter of the bytes; export.md has the cost in AUC, `afo evaluate MODEL --rows int8` measures it."),
    ] = "float32"  # fmt: skip
    tables: Annotated[
        TableKind,
        Meta(description="Hash tables as sorted keys that plain TensorFlow serves (`frozen`), or as tables of afo's "
             "operations, which are several times faster and which the server must load (`native`; `mapped`: processes "
             "of a machine share their memory, at some of the speed; export.md)."),
    ] = "frozen"  # fmt: skip
    user_features: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(description="Features that are the same for all candidates of a request: the SavedModel has a signature "
             "`score` beside the others, which reads and computes them once for one user and n items (export.md)."),
    ] = ()  # fmt: skip
    every: Annotated[
        Duration | None,
        Meta(description="`dir` gets numbered versions: one so often while the job trains, of its newest checkpoint "
             "that passes `require`, and one at its end. Left out: one model, at the end."),
    ] = None  # fmt: skip
    deltas: Annotated[
        bool,
        Meta(description="A version holds what changed since another one, where it can (export.md). For native and "
             "mapped tables, and `checkpoint.full_every` above 1."),
    ] = False  # fmt: skip
    full_every: Annotated[
        int, Meta(ge=1, le=MOST_FULL_EVERY, description="With `deltas`: one in so many versions is whole.")
    ] = 16
    keep: Annotated[PositiveInt, Meta(description="Versions that stay, beside those that they need.")] = 10
    require: Annotated[
        dict[str, str],
        Meta(description="The quality gate: a bound for each metric, e.g. `auc: '>=0.74'`, `calibration: 0.9..1.1`, "
             "`coverage_drop: '<=0.1'`. If one does not hold, nothing is exported and the job fails; of versions "
             "before the last one, such a checkpoint is passed over."),
    ] = field(default_factory=dict)  # fmt: skip
    require_window: Annotated[
        int,
        Meta(ge=1, le=MOST_WINDOW,
             description="With `every`: each bound of `require` has to hold for the checkpoint and for the mean over "
             "so many evaluations, its own and those before it."),
    ] = 1  # fmt: skip

    def __post_init__(self) -> None:
        if self.deltas and self.every is None:
            raise ValueError("`deltas` is for versions; say how often one is written with `every`, e.g. `every: 30s`")
        if self.deltas and self.tables == "frozen":
            raise ValueError("`deltas` is not for frozen tables; write `tables: native` or `tables: mapped`")
        if self.require_window > 1 and (self.every is None or not self.require):
            raise ValueError(
                "`require_window` is for versions with bounds; add `every` and `require`, e.g. "
                "`require: {auc: '>=0.74'}`, or leave it out"
            )
        check_ranking(self.metric)
        for name in self.user_features:
            if self.user_features.count(name) > 1:
                raise ValueError(f"`user_features` names `{name}` twice; remove one")
        allowed = (*METRICS, "auc_drop", "coverage_drop")
        for name, text in self.require.items():
            if name.split("/")[0] not in allowed:
                raise ValueError(f"`require` knows no metric {name!r}; allowed are {', '.join(allowed)}")
            Bound.parse(text)

    @property
    def gates_versions(self) -> bool:
        """Whether versions are written while the job trains, of checkpoints for which `require` holds."""
        return self.every is not None and bool(self.require)

    @property
    def awaits_evaluation(self) -> bool:
        """Whether it takes the final evaluation to say what is exported."""
        return bool(self.require) or self.checkpoint == "best"
