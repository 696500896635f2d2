"""The section `train`: evaluations, and the end of the training."""

from typing import Annotated

from msgspec import Meta

from afo.formats.units import Interval
from afo.job.section import MOST_STEPS, PositiveInt, Section

#: What the evaluator measures; of a model of several labels also as `auc/<label>`.
METRICS = ("auc", "log_loss", "calibration", "samples")
#: Metrics that tell a better model from a worse one, and whether more of it is better.
RANKING = {"auc": True, "log_loss": False}


class EarlyStop(Section, frozen=True):
    """Ends the training when the evaluations no longer improve."""

    metric: Annotated[str, Meta(description="`auc` (higher is better) or `log_loss` (lower is better).")] = "auc"
    patience: Annotated[PositiveInt, Meta(description="Evaluations in a row without a new best value.")] = 3
    min_delta: Annotated[float, Meta(ge=0, description="Smallest improvement that counts.")] = 0.0

    def __post_init__(self) -> None:
        check_ranking(self.metric)


class Train(Section, frozen=True):
    """When to stop and when to evaluate."""

    max_steps: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_STEPS)] | None,
        Meta(description="Stop after so many steps of all workers; with several, after at most workers × (`pipeline` "
             "+ 1) more, which are under way by then."),
    ] = None  # fmt: skip
    eval_every: Annotated[
        Interval,
        Meta(description="How often a checkpoint is written for the evaluator: by time, or when the steps of all "
             "workers pass a multiple of so many steps, samples or epochs."),
    ] = Interval("10m")  # fmt: skip
    early_stop: EarlyStop | None = None
    pipeline: Annotated[
        int,
        Meta(ge=0, le=8, description="Embedding pipeline: so many batches of a worker are on their way to and from the "
             "parameter servers beside the one that is computed. It hides the network; a batch does not see so many of "
             "its worker's own updates before it."),
    ] = 0  # fmt: skip


def check_ranking(metric: str) -> None:
    """Raises ValueError for a metric that tells no better model from a worse one."""
    if metric.split("/")[0] not in RANKING:
        raise ValueError(f"`metric` is {metric!r}; allowed are {', '.join(RANKING)}")
