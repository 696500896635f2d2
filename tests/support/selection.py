"""Which tests run, and how long each took: the options --slice, --durations-file and --failures-file.

Tests marked `slow` are not in `make test`. Each day's `make test-slice` runs some of them: they are dealt, by the
durations in tests/durations.json, into slices that each last no longer than a budget, and the date chooses one.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

DURATIONS = Path(__file__).parents[1] / "durations.json"
#: What a slow test is taken for whose duration is not known, in seconds.
UNKNOWN_S = 60.0


def deal(durations: dict[str, float], budget: float) -> list[list[str]]:
    """Names in slices whose durations sum to at most `budget` each; one that alone is longer has its own.

    In their order, since tests that are neighbours share jobs and clusters.
    """
    slices: list[list[str]] = []
    left = 0.0
    for name, seconds in durations.items():
        if not slices or seconds > left:
            slices.append([])
            left = budget
        slices[-1].append(name)
        left -= seconds
    return slices


def of_day(slices: list[list[str]], day: int) -> list[str]:
    """The slice of a day: all of them take turns, whatever day it begins with."""
    return slices[day % len(slices)] if slices else []


class Selection:
    """The options at work in one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._slice: str | None = config.getoption("--slice")
        self._durations: Path | None = config.getoption("--durations-file")
        self._failures: Path | None = config.getoption("--failures-file")
        self._controls = not hasattr(config, "workerinput")
        self._seconds: dict[str, float] = {}
        self._slow: set[str] = set()
        self._failed: dict[str, str] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the slice DAY:BUDGET of what the marks have left."""
        if self._slice is None:
            return
        day, _, budget = self._slice.partition(":")
        known = json.loads(DURATIONS.read_text())
        slices = deal({item.nodeid: known.get(item.nodeid, UNKNOWN_S) for item in items}, float(budget))
        chosen = set(of_day(slices, int(day)))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a phase's time and failure."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if "slow" in report.keywords:
            self._slow.add(report.nodeid)
        if report.failed:
            self._failed[report.nodeid] = self._failed.get(report.nodeid, "") + report.longreprtext

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported is a failure without a test."""
        if report.failed:
            self._failed[report.nodeid] = report.longreprtext

    def pytest_sessionfinish(self) -> None:
        """Write what was asked for; of a distributed run only its controller knows all."""
        if not self._controls:
            return
        if self._durations:
            slow = self._slow
            durations = ({"test": name, "s": round(s, 2), "slow": name in slow} for name, s in self._seconds.items())
            _append(self._durations, durations)
        if self._failures:
            _append(self._failures, ({"test": name, "output": text} for name, text in self._failed.items()))


def _append(path: Path, records: Iterable[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lines:
        lines.writelines(json.dumps(each) + "\n" for each in records)
