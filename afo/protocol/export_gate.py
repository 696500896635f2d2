"""The quality gate: may a model be exported? Pure, no TensorFlow here.

The bounds are those of `export.require`. A fall (`auc_drop`, `coverage_drop`) is measured against the model that the
training was warm-started from; where there is none, or nothing is known of it, such a bound has nothing to compare
with: it holds, and its check says so.

Of versions (`export.every`) a bound has to hold twice: for the checkpoint itself, and for the mean over the last
`export.require_window` evaluations, its own included. A fall of the AUC is measured against the version before, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from msgspec import Struct, structs

from afo.formats.units import Bound

#: Metrics that compare with the model before this one.
DROPS = ("auc_drop", "coverage_drop")


class Fall(Struct, frozen=True):
    """The share of evaluation records that hold a feature, in the model before and in this one."""

    feature: str
    before: float
    now: float

    @property
    def size(self) -> float:
        """How much the share fell; negative if it rose."""
        return self.before - self.now


class Check(Struct, frozen=True):
    """What became of one bound. `text` says it to a person.

    `value`: of the checkpoint; `mean`: over the `evaluations` of the window; None where there is none.
    """

    metric: str
    passed: bool
    text: str
    bound: str = ""
    value: float | None = None
    mean: float | None = None
    evaluations: int = 0


def falls(before: Mapping[str, float], now: Mapping[str, float], most: int) -> tuple[Fall, ...]:
    """The `most` largest falls of the coverage of features that both models read, largest first."""
    found = [Fall(name, before[name], share) for name, share in now.items() if name in before]
    return tuple(sorted((fall for fall in found if fall.size > 0), key=lambda fall: (-fall.size, fall.feature))[:most])


def add_drops(
    metrics: Mapping[str, float], coverage: Mapping[str, float],
    before: Mapping[str, float], coverage_before: Mapping[str, float],
) -> dict[str, float]:  # fmt: skip
    """`metrics` with the drops that can be computed."""
    result = dict(metrics)
    for name in [name for name in metrics if name.split("/")[0] == "auc" and name in before]:
        result[name.replace("auc", "auc_drop", 1)] = before[name] - metrics[name]
    if any(name in coverage_before for name in coverage):
        largest = falls(coverage_before, coverage, 1)
        result["coverage_drop"] = largest[0].size if largest else 0.0
    return result


def add_fall_since_version(metrics: Mapping[str, float], exported: Mapping[str, float]) -> dict[str, float]:
    """`metrics` with `auc_drop` against a version that was exported, where that is the larger fall."""
    result = dict(metrics)
    for name in [name for name in metrics if name.split("/")[0] == "auc" and name in exported]:
        drop = name.replace("auc", "auc_drop", 1)
        result[drop] = max(exported[name] - metrics[name], metrics.get(drop, -1.0))
    return result


def check(
    require: Mapping[str, str], metrics: Mapping[str, float], worst: Sequence[Fall],
    before: Sequence[Mapping[str, float]] = (),
) -> tuple[Check, ...]:  # fmt: skip
    """Every bound of `export.require` against the metrics of one evaluation, and against their means with those
    `before` it in the window; `worst` are its largest falls."""
    window = (*before, metrics)
    return tuple(_check_window(_check_metric(name, text, metrics, worst), window) for name, text in require.items())


def refusals(checks: Iterable[Check]) -> list[str]:
    """The words of the bounds that do not hold."""
    return [result.text for result in checks if not result.passed]


def _check_metric(name: str, text: str, metrics: Mapping[str, float], worst: Sequence[Fall]) -> Check:
    bound = Bound.parse(text)
    if name not in metrics:
        if name.split("/")[0] in DROPS:
            return Check(name, True, f"{name}: there is no earlier model to compare with", bound.text)
        return Check(name, False, f"{name} was not measured, and `export.require` wants {bound.text}", bound.text)
    value = metrics[name]
    if bound.holds(value):
        return Check(name, True, f"{name} {value:.6g} is within {bound.text}", bound.text, value)
    words = f"{name} {value:.6g} is not within {bound.text}{_culprits(name, bound, worst)}"
    return Check(name, False, words, bound.text, value)


def _check_window(own: Check, window: Sequence[Mapping[str, float]]) -> Check:
    """The same of the mean. A drop is left out where there was nothing to compare with; any other metric that an
    evaluation lacks was no number, and has no mean."""
    if own.value is None or len(window) == 1:
        return own
    values = [each[own.metric] for each in window if own.metric in each]
    if len(values) < len(window) and own.metric.split("/")[0] not in DROPS:
        lacking = f"{own.metric} was not measured in {len(window) - len(values)} of the last {len(window)} evaluations"
        return structs.replace(own, passed=False, text=f"{own.text}; {lacking}", evaluations=len(window))
    mean = fmean(values)
    holds = Bound.parse(own.bound).holds(mean)
    words = f"{own.text}; its mean over the last {len(values)} evaluations, {mean:.6g}, is{'' if holds else ' not'}"
    return structs.replace(own, passed=own.passed and holds, text=words, mean=mean, evaluations=len(values))


def _culprits(name: str, bound: Bound, worst: Sequence[Fall]) -> str:
    if name != "coverage_drop":
        return ""
    shown = [
        f"feature `{fall.feature}` was in {fall.before:.1%} of the records and is in {fall.now:.1%}"
        for fall in worst
        if not bound.holds(fall.size)
    ]
    return f": {'; '.join(shown)}" if shown else ""
