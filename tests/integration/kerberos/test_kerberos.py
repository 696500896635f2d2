"""A Hadoop that demands Kerberos: files by a ticket or a delegation token, jobs on YARN, and what is said without."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kerberos_realm
from afo import storage
from afo.errors import ClusterUnreachable, PermissionDenied
from afo.events import types as ev
from afo.site.config import load_config
from afo.site.user_state import UserState
from afo.yarn.resource_manager import from_configuration
from hadoop_kerberos import DEMO, SecuredCluster, secured
from live_job import LiveJob, afo
from processor_build import require_parameter_server
from strangers import assert_strangers_get_nothing

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Skips where the programs of a KDC are missing, but fails in continuous integration."""
    kerberos_realm.demand()
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


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_files_by_a_delegation_token_alone(
    cluster: SecuredCluster, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Java writes the address into the token, whatever name it asked by; people write names into their job files."""
    token = tmp_path / "tokens"
    fetch = [str(cluster.cluster.bin_dir / "hdfs"), "fetchdt", "--renewer", "yarn", str(token)]
    subprocess.run(fetch, check=True, capture_output=True, timeout=120)
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(token))
    named = home.replace("127.0.0.1", host)
    storage.write_bytes(f"{named}/by-token", b"x" * 100_000)
    assert storage.info(f"{named}/by-token").owner == "alice"
    assert storage.read_bytes(f"{named}/by-token") == b"x" * 100_000


@pytest.fixture
def clicks(home: str) -> str:
    """A directory with few clicks."""
    made = afo("data", "synth", f"{home}/clicks", "--train", "4000", "--eval", "1000", "--train-files", "2")
    assert made.returncode == 0, made.stderr
    return f"{home}/clicks"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_local_job_whose_data_and_model_are_in_that_hdfs(
    home: str, clicks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    places = (
        "--var",
        f"data={clicks}",
        "--set",
        f"checkpoint.dir={home}/saved",
        "--set",
        f"export.dir={home}/model",
    )
    job = LiveJob.submit(DEMO, str(tmp_path / "jobs"), "--runtime", "local", *places)
    assert job.verdict(300).state == "SUCCEEDED", job.story()
    saved = storage.list_dir(f"{home}/saved/{job.id}")
    assert {file.owner for file in saved} == {"alice"}
    assert storage.exists(f"{home}/model/saved_model.pb")
    job.wait_for_no_process()


@pytest.mark.tensorflow
@pytest.mark.parametrize("engine", ["tensorflow", "psplus"])
def test_a_job_on_yarn_by_a_keytab(
    engine: str, cluster: SecuredCluster, home: str, clicks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "psplus":
        require_parameter_server()
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(cluster.cluster.bin_dir), prepend=os.pathsep)
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    keytab = "--keytab", str(cluster.realm.keytab("alice")), "--principal", "alice"
    options = "--runtime", "yarn", "--var", f"data={clicks}", "--set", f"engine={engine}"
    job = LiveJob.submit(DEMO, f"{home}/.afo/jobs", *options, *keytab)
    cluster.sign_in(monkeypatch, "alice")
    job.wait(lambda: len(job.events(ev.TaskRegistered)) >= 3, "some tasks")
    secret = UserState(load_config().state_dir).secret(job.id)
    assert secret
    processes = job.processes()
    assert not [each for each in processes if secret in f"{each.cmdline()} {each.environ()}"]
    environments = [each for each in map(psutil.Process.environ, processes) if "CONTAINER_ID" in each]
    assert len(environments) >= 3
    if engine == "psplus":
        job.wait(lambda: bool(job.events(ev.VariablesReady)), "its servers are asked")
        host, _, port = job.events(ev.GenerationStarted)[0].ps[0].rpartition(":")
        assert_strangers_get_nothing(host, int(port))
    for environment in environments:
        assert Path(environment["HADOOP_TOKEN_FILE_LOCATION"]).is_file()
        assert not {"KRB5CCNAME", "KRB5_CLIENT_KTNAME", "HADOOP_USER_NAME"} & environment.keys()
    assert job.verdict(300).state == "SUCCEEDED", job.story()
    assert {file.owner for file in storage.list_dir(job.paths.dir)} == {"alice"}
    found = from_configuration().application(job.id)
    assert (found.user, found.queue) == ("alice", "root.default")
    # Not all of its containers fit: the AM asked the ResourceManager why, by its token.
    assert any("queue root.default" in event.message for event in job.events(ev.ContainersAwaited)), job.story()
    job.wait_for_application_end()
    job.wait_for_no_process()

    files = list(files_below(job.paths.dir))
    assert len(files) > 20
    assert not [url for url in files if secret.encode() in storage.read_bytes(url)]
    cluster.sign_in(monkeypatch, "bob")
    for url in (job.paths.dir, f"{home}/.afo/cache", f"{home}/.skein"):
        with pytest.raises(PermissionDenied, match="user=bob"):
            storage.list_dir(url)


def files_below(url: str) -> Iterator[str]:
    """All of them."""
    for found in storage.list_dir(url):
        if found.is_dir:
            yield from files_below(found.url)
        else:
            yield found.url


def test_what_a_client_without_a_ticket_is_told(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    done = afo("doctor", "--cluster")
    assert done.returncode != 0
    assert "fail Kerberos: there is no ticket of Kerberos; there is no valid ticket: run `kinit`" in done.stdout
    cluster.sign_in(monkeypatch, "alice", "-l", "5m")
    monkeypatch.setenv("PATH", str(cluster.cluster.bin_dir), prepend=os.pathsep)
    done = afo("doctor", "--cluster")
    assert done.returncode == 0, done.stdout
    for words in (
        "ok   delegation tokens: renewed by yarn/localhost@AFO.TEST", "ok   class path: ", "ok   realm: AFO.TEST",
        "ok   user's name: alice",
    ):  # fmt: skip
        assert words in done.stdout
    assert "warn Kerberos: alice@AFO.TEST, whose ticket is good for " in done.stdout
