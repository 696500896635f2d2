"""Adult on a Hadoop that demands Kerberos: by a ticket alone, and through the faults that touch tokens.

As `test_cluster_faults.py`, on a cluster whose HDFS and YARN are secured: whoever connects anew, and each container
that begins later, has only its delegation tokens. 8 faults in 4 phases are 8 jobs; `make test-faults` runs all of them
and writes docs/reports/secured-faults-part7.md, the other tests one.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerberos_realm
from adult import JOB_FILE, REPOSITORY, AdultData, convert
from afo.storage import patience
from cluster_faults import SECURED_GROUPS
from cluster_faults.survival import BAND, ROUNDS, TODAYS, UNDISTURBED, Run, survive, tables
from hadoop_kerberos import SecuredCluster, secured
from live_job import submit_and_wait
from resumable_runs import ResumableRuns, circumstances, reported

pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.tensorflow, pytest.mark.timeout(900)]

REPORT = REPOSITORY / "docs" / "reports" / "secured-faults-part7.md"


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """See `kerberos_realm.demand`."""
    kerberos_realm.demand()
    with secured(tmp_path_factory.mktemp("secured-faults"), nodes=2) as found:
        yield found


@pytest.fixture(scope="module")
def alices(
    cluster: SecuredCluster, adult_source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AdultData]:
    """Adult in her home; she has a ticket, which never leaves this process and those that it starts."""
    home = f"{cluster.url}/user/alice"
    with pytest.MonkeyPatch.context() as patch:
        cluster.sign_in(patch, "alice")
        patch.setenv("AFO_STATE_DIR", str(tmp_path_factory.mktemp("alice")))
        patch.setenv("PATH", str(cluster.cluster.bin_dir), prepend=os.pathsep)
        patch.setattr(patience, "_seconds", 60.0)  # looking at a job must not fail while its file system is away
        convert(adult_source, f"{home}/adult")
        yield AdultData(f"{home}/adult", f"{home}/.afo/jobs")


@pytest.fixture(scope="module")
def series() -> Iterator[ResumableRuns[Run]]:
    """Writes the report after the last job of `make test-faults`."""
    with reported("secured-faults", Run, REPORT, report) as noted:
        yield noted


def test_adult_reaches_its_aim_there_as_well(alices: AdultData) -> None:
    answer = submit_and_wait(JOB_FILE, *alices.options)
    assert answer["state"] == "SUCCEEDED"
    assert answer["metrics"]["auc"] >= 0.910


def test_a_job_survives_todays_round(alices: AdultData, cluster: SecuredCluster) -> None:
    print(survive(SECURED_GROUPS, TODAYS, 0, alices, cluster.cluster))


@pytest.mark.faults
@pytest.mark.parametrize("group", range(len(SECURED_GROUPS)))
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_job_survives(
    number: int, group: int, series: ResumableRuns[Run], alices: AdultData, cluster: SecuredCluster
) -> None:
    if series.find(lambda run: (run.round, run.group) == (number, group)) is None:
        print(series.add(survive(SECURED_GROUPS, number, group, alices, cluster.cluster)))


def report(runs: list[Run]) -> str:
    """The page, in Markdown."""
    lines = [
        "# Faults of part 7: jobs on a YARN and an HDFS that demand Kerberos",
        "",
        "Written by `make test-faults` (`tests/integration/faults/test_secured_faults.py`): as",
        "[faults-part3.md](faults-part3.md), by a user who signed in with `kinit` and gave no keytab, with the faults",
        "after which somebody has to prove anew who he is. Each job ended SUCCEEDED with every sample counted once an",
        f"epoch, no process left and an AUC within ±{BAND} of {UNDISTURBED}.",
        "",
        circumstances(runs, "afo", "tensorflow-cpu", "skein", "hdfs-native"),
        "",
        *tables(runs, SECURED_GROUPS),
    ]
    return "\n".join(lines)
