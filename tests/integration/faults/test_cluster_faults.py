"""Faults around jobs that train on real YARN and HDFS, one in each phase of a job; docs/reports/faults-part3.md.

Each job has to end SUCCEEDED with every sample counted once an epoch, an AUC in the band, no process left, and no more
restarts than its faults explain. 20 faults in 4 phases are 20 jobs in 4 rounds. `make test-faults` runs all of them;
the other tests one round, by the day or $AFO_FAULTS_ROUND. Good jobs are noted in build/faults/COMMIT.jsonl, so a
series that was interrupted goes on; AFO_FAULTS_REPORT writes the report elsewhere.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adult import REPOSITORY, AdultData
from afo.storage import patience
from afo_client.hadoop import Cluster
from cluster_faults import GROUPS
from cluster_faults.survival import BAND, ROUNDS, TODAYS, UNDISTURBED, Run, survive, tables
from resumable_runs import ResumableRuns, circumstances, reported

pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.tensorflow, pytest.mark.timeout(900)]

REPORT = Path(os.environ.get("AFO_FAULTS_REPORT") or REPOSITORY / "docs" / "reports" / "faults-part3.md")


@pytest.fixture(scope="module")
def series() -> Iterator[ResumableRuns[Run]]:
    """Writes the report after the last job of `make test-faults`."""
    with reported("faults", Run, REPORT, report) as noted:
        yield noted


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at a job must not fail while its file system is away."""
    monkeypatch.setattr(patience, "_seconds", 60.0)


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_a_job_survives_todays_round(group: int, adult: AdultData, hadoop: Cluster) -> None:
    print(survive(GROUPS, TODAYS, group, adult, hadoop))


@pytest.mark.faults
@pytest.mark.parametrize("group", range(len(GROUPS)))
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_job_survives(number: int, group: int, series: ResumableRuns[Run], adult: AdultData, hadoop: Cluster) -> None:
    if series.find(lambda run: (run.round, run.group) == (number, group)) is None:
        print(series.add(survive(GROUPS, number, group, adult, hadoop)))


def report(runs: list[Run]) -> str:
    """The page, in Markdown."""
    lines = [
        "# Faults of part 3: what happens around jobs that train on real YARN",
        "",
        "Written by `make test-faults` (`tests/integration/faults/test_cluster_faults.py`). Each job of",
        "`conf/jobs/adult-yarn.yaml`, in small steps, went through four faults, one in each phase, and ended SUCCEEDED",
        f"with every sample counted once an epoch, no process left and an AUC within ±{BAND} of {UNDISTURBED}. Phases,",
        "proved by the order of the event log: *start*, before the model is there; *training*; *checkpoint*, between",
        "`CheckpointBegun` and `CheckpointWritten`; *shutdown*, after the last file was given out.",
        "",
        circumstances(runs, "afo", "tensorflow-cpu", "skein"),
        "",
        *tables(runs, GROUPS),
    ]
    return "\n".join(lines)
