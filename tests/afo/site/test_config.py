from pathlib import Path

import pytest

from afo.errors import NotFound, SpecError, UsageError
from afo.formats.yaml_file import convert
from afo.formats.yaml_tree import read_yaml
from afo.job.loader import load_job
from afo.site.config import RUNTIMES, Site, load_config, runtime_of

CONF = Path(__file__).parents[3] / "conf"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "AFO_JOBS_ROOT", "AFO_STATE_DIR", "HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")


def hadoop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://nn:9000</value></property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))


def test_built_in_values(tmp_path: Path) -> None:
    config = load_config()
    assert config.runtime.value == "local"
    assert config.jobs_root("local") == f"{tmp_path}/.afo/jobs"
    assert config.site_file == ""
    with pytest.raises(NotFound, match="HADOOP_CONF_DIR"):
        config.jobs_root("yarn")


def test_a_hadoop_configuration_makes_yarn_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hadoop(tmp_path / "h", monkeypatch)
    config = load_config()
    assert config.runtime.value == "yarn"
    assert config.root_of("application_1_1") == "hdfs://nn:9000/user/ann/.afo/jobs"
    assert config.root_of("local_1_1") == f"{tmp_path}/.afo/jobs"


def test_flag_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "afo-site.yaml").write_text(
        "runtime: yarn\njobs_root: {local: /j/{user}}\n".replace("/j/{user}", "'/j/{user}'")
    )
    monkeypatch.setenv("AFO_CONF_DIR", str(tmp_path))
    config = load_config()
    assert (config.runtime.value, config.runtime.origin) == ("yarn", f"{tmp_path}/afo-site.yaml")
    assert config.local_root.value == "/j/ann"
    monkeypatch.setenv("AFO_RUNTIME", "local")
    monkeypatch.setenv("AFO_JOBS_ROOT", "/k")
    config = load_config()
    assert (config.runtime.value, config.local_root.value, config.yarn_root.value) == ("local", "/k", "/k")
    assert load_config("yarn").runtime.origin == "flag --runtime"


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_RUNTIME", "moon")
    with pytest.raises(UsageError, match="'moon'; allowed: local, yarn"):
        load_config()
    monkeypatch.setenv("AFO_CONF_DIR", str(tmp_path))
    with pytest.raises(NotFound, match="AFO_CONF_DIR"):
        load_config()
    (tmp_path / "afo-site.yaml").write_text("runtme: yarn\n")
    with pytest.raises(SpecError, match=r"afo-site\.yaml:1: .*did you mean `runtime`"):
        load_config()


def test_the_runtime_of_an_id() -> None:
    assert {runtime_of("local_1_1"), runtime_of("application_1_1")} == set(RUNTIMES)
    with pytest.raises(SpecError, match="not a job id"):
        runtime_of("../x")


def test_every_sample_is_right() -> None:
    convert(read_yaml(CONF / "afo-site.yaml"), Site)
    jobs = sorted((CONF / "jobs").glob("*.yaml"))
    assert jobs
    for path in jobs:
        assert load_job(path).data.train
