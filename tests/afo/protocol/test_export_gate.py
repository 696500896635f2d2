"""What the quality gate makes of bounds."""

import pytest

from afo.protocol.export_gate import Fall, add_drops, add_fall_since_version, check, falls, refusals


def test_the_gate_names_the_bound_and_the_feature_that_failed() -> None:
    coverage_before, coverage = {"user": 0.99, "city": 1.0, "gone": 1.0}, {"user": 0.4, "city": 0.97, "new": 0.1}
    metrics = add_drops({"auc": 0.70, "calibration": 1.0}, coverage, {"auc": 0.75}, coverage_before)
    worst = falls(coverage_before, coverage, 10)
    assert [fall.feature for fall in worst] == ["user", "city"]
    require = {"auc": ">=0.6", "auc_drop": "<=0.01", "calibration": "0.9..1.1", "coverage_drop": "<=0.1"}
    checks = check(require, metrics, worst)
    assert [(each.metric, each.passed) for each in checks] == [
        ("auc", True), ("auc_drop", False), ("calibration", True), ("coverage_drop", False),
    ]  # fmt: skip
    auc_drop, coverage_drop = refusals(checks)
    assert auc_drop.startswith("auc_drop 0.05 is not within <=0.01")
    assert "`user` was in 99.0% of the records and is in 40.0%" in coverage_drop
    assert "city" not in coverage_drop, "its fall is allowed"


def test_without_an_earlier_model_a_drop_holds_and_says_so() -> None:
    metrics = add_drops({"auc": 0.7}, {"user": 0.1}, {}, {})
    checks = check({"auc_drop": "<=0", "coverage_drop": "<=0"}, metrics, ())
    assert not refusals(checks)
    assert all("no earlier model" in each.text for each in checks)


def test_what_was_not_measured_does_not_pass() -> None:
    assert refusals(check({"calibration": "0.9..1.1"}, {"auc": 0.9}, ())) == [
        "calibration was not measured, and `export.require` wants 0.9..1.1"
    ]


def test_a_rise_of_the_coverage_is_no_fall() -> None:
    assert falls({"a": 0.5}, {"a": 0.9}, 10) == ()
    assert add_drops({}, {"a": 0.9}, {}, {"a": 0.5}) == {"coverage_drop": 0.0}
    assert Fall("a", 0.5, 0.9).size < 0


def test_a_bound_holds_for_the_evaluation_and_for_the_mean_over_the_window() -> None:
    require = {"auc": ">=0.75"}
    before = [{"auc": 0.7}, {"auc": 0.76}]
    [refused] = check(require, {"auc": 0.76}, (), before)
    assert (refused.passed, refused.value, refused.bound, refused.evaluations) == (False, 0.76, ">=0.75", 3)
    assert refused.mean == pytest.approx(0.74)
    assert refused.text == "auc 0.76 is within >=0.75; its mean over the last 3 evaluations, 0.74, is not"
    [own] = check(require, {"auc": 0.74}, (), [{"auc": 0.9}])
    assert not own.passed, "a mean does not make a worse model good"
    assert own.text == "auc 0.74 is not within >=0.75; its mean over the last 2 evaluations, 0.82, is"
    [passed] = check(require, {"auc": 0.8}, (), before)
    assert passed.passed


def test_an_evaluation_without_the_metric_has_no_mean_and_one_without_a_drop_is_left_out() -> None:
    [auc] = check({"auc": ">=0.5"}, {"auc": 0.9}, (), [{"log_loss": 0.1}, {"auc": 0.9}])
    assert not auc.passed
    assert "auc was not measured in 1 of the last 3 evaluations" in auc.text
    [drop] = check({"auc_drop": "<=0.01"}, {"auc_drop": 0.0}, (), [{}, {"auc_drop": 0.01}])
    assert (drop.passed, drop.mean, drop.evaluations) == (True, 0.005, 2)


def test_the_larger_fall_counts_of_that_since_the_warm_start_and_that_since_the_last_version() -> None:
    exported = {"auc": 0.8, "auc/buy": 0.7, "log_loss": 0.1}
    assert add_fall_since_version({"auc": 0.78, "auc_drop": 0.01}, exported)["auc_drop"] == pytest.approx(0.02)
    assert add_fall_since_version({"auc": 0.78, "auc_drop": 0.05}, exported)["auc_drop"] == 0.05
    assert add_fall_since_version({"auc": 0.9, "auc/buy": 0.7}, exported) == {
        "auc": 0.9, "auc/buy": 0.7, "auc_drop": pytest.approx(-0.1), "auc_drop/buy": 0.0,
    }  # fmt: skip
    assert add_fall_since_version({"auc": 0.9}, {}) == {"auc": 0.9}
