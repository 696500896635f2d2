"""Files of an HDFS that demands Kerberos: by a ticket, by a delegation token, and what is said without either."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerberos
from adult import REPOSITORY
from afo import storage
from afo.errors import ClusterUnreachable, PermissionDenied
from live_job import LiveJob, afo
from secured import SecuredCluster, secured

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Skips where the programs of a KDC are missing, but fails in continuous integration."""
    if lacking := kerberos.missing():
        if os.environ.get("CI"):
            pytest.fail(f"continuous integration must run the tests with Kerberos; missing: {lacking}")
        pytest.skip(f"missing: {lacking}")
    with secured(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture
def home(cluster: SecuredCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Alice's, who has a ticket."""
    cluster.sign_in(monkeypatch, "alice")
    return f"{cluster.url}/user/alice"


def test_files_by_a_ticket(home: str, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "data").write_bytes(data)
    storage.upload(str(tmp_path / "data"), f"{home}/data")
    storage.append(f"{home}/journal", b"one")
    storage.append(f"{home}/journal", b"two")
    storage.rename(f"{home}/data", f"{home}/moved")
    storage.download(f"{home}/moved", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == data
    assert storage.read_bytes(f"{home}/journal") == b"onetwo"
    assert {(file.url, file.owner) for file in storage.list_dir(home)} >= {
        (f"{home}/moved", "alice"), (f"{home}/journal", "alice")
    }  # fmt: skip


def test_another_user_is_told_apart(cluster: SecuredCluster, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write_bytes(f"{home}/mine", b"secret")
    cluster.sign_in(monkeypatch, "bob")
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")  # which is believed without Kerberos
    with pytest.raises(PermissionDenied, match="user=bob"):
        storage.read_bytes(f"{home}/mine")


def test_without_a_ticket_it_says_what_to_do(cluster: SecuredCluster) -> None:
    with pytest.raises(PermissionDenied, match="demands Kerberos; there is no valid ticket: run `kinit`"):
        storage.exists(f"{cluster.url}/user/alice")


def test_without_the_cluster_s_configuration_it_says_what_to_set(
    cluster: SecuredCluster, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(ClusterUnreachable, match="if it demands Kerberos, set HADOOP_CONF_DIR to that cluster's"):
        storage.exists(home)


def test_files_by_a_delegation_token_alone(
    cluster: SecuredCluster, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "tokens"
    fetch = [str(cluster.cluster.bin_dir / "hdfs"), "fetchdt", "--renewer", "yarn", str(token)]
    subprocess.run(fetch, check=True, capture_output=True, timeout=120)
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(token))
    storage.write_bytes(f"{home}/by-token", b"x" * 100_000)
    assert storage.info(f"{home}/by-token").owner == "alice"
    assert storage.read_bytes(f"{home}/by-token") == b"x" * 100_000


@pytest.mark.tensorflow
def test_a_local_job_whose_data_and_model_are_in_that_hdfs(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    made = afo("data", "synth", f"{home}/clicks", "--train", "4000", "--eval", "1000", "--train-files", "2")
    assert made.returncode == 0, made.stderr
    places = (
        "--var",
        f"data={home}/clicks",
        "--set",
        f"checkpoint.dir={home}/saved",
        "--set",
        f"export.dir={home}/model",
    )
    job = LiveJob.submit(
        REPOSITORY / "conf" / "jobs" / "demo.yaml", str(tmp_path / "jobs"), "--runtime", "local", *places
    )
    assert job.verdict(300).state == "SUCCEEDED", job.story()
    saved = storage.list_dir(f"{home}/saved/{job.id}")
    assert {file.owner for file in saved} == {"alice"}
    assert storage.exists(f"{home}/model/saved_model.pb")
    job.wait_for_no_process()
