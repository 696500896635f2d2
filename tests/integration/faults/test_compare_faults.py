"""`make compare-faults`: the same faults against afo and against TensorFlow alone.

Writes docs/reports/stock-tensorflow-part3.md. Runs are noted in build/compare-faults/COMMIT.jsonl, so an interrupted
series goes on; AFO_COMPARE_FAULTS_REPORT writes the report elsewhere.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adult import REPOSITORY
from resumable_runs import ResumableRuns, reported
from side_by_side.cell import FAULTS, NAMES, Run, observe
from side_by_side.contender import Name
from side_by_side.page import page

REPORT = Path(
    os.environ.get("AFO_COMPARE_FAULTS_REPORT") or REPOSITORY / "docs" / "reports" / "stock-tensorflow-part3.md"
)


@pytest.fixture(scope="module")
def series() -> Iterator[ResumableRuns[Run]]:
    """Writes the report after the last run, or the last one that an error let run."""
    with reported("compare-faults", Run, REPORT, page) as noted:
        yield noted


@pytest.mark.compare_faults
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault(
    fault: str, name: Name, series: ResumableRuns[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    run = series.find(lambda run: (run.name, run.fault) == (name, fault))
    run = run or series.add(observe(name, fault, tmp_path))
    # What becomes of TensorFlow alone is the result of this series, whatever it is.
    assert name != "afo" or (run.kind, run.missing) == ("recovered", 0), run
