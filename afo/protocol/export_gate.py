"""The quality gate: may a model be exported? Pure, no TensorFlow here.

The bounds are those of `export.require`. A fall (`auc_drop`, `coverage_drop`) is measured against the model that the
training was warm-started from; where there is none, or nothing is known of it, such a bound has nothing to compare
with: it holds, and its check says so.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

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
    """What became of one bound. `text` says it to a person."""

    metric: str
    passed: bool
    text: str


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


def check(require: Mapping[str, str], metrics: Mapping[str, float], worst: Sequence[Fall]) -> tuple[Check, ...]:
    """Every bound of `export.require` against the metrics of one evaluation; `worst` are its largest falls."""
    return tuple(_check_metric(name, Bound.parse(text), metrics, worst) for name, text in require.items())


def refusals(checks: Iterable[Check]) -> list[str]:
    """The words of the bounds that do not hold."""
    return [result.text for result in checks if not result.passed]


def _check_metric(name: str, bound: Bound, metrics: Mapping[str, float], worst: Sequence[Fall]) -> Check:
    if name not in metrics:
        if name.split("/")[0] in DROPS:
            return Check(name, True, f"{name}: there is no earlier model to compare with")
        return Check(name, False, f"{name} was not measured, and `export.require` wants {bound.text}")
    value = metrics[name]
    if bound.holds(value):
        return Check(name, True, f"{name} {value:.6g} is within {bound.text}")
    return Check(name, False, f"{name} {value:.6g} is not within {bound.text}{_culprits(name, bound, worst)}")


def _culprits(name: str, bound: Bound, worst: Sequence[Fall]) -> str:
    if name != "coverage_drop":
        return ""
    shown = [
        f"feature `{fall.feature}` was in {fall.before:.1%} of the records and is in {fall.now:.1%}"
        for fall in worst
        if not bound.holds(fall.size)
    ]
    return f": {'; '.join(shown)}" if shown else ""
