"""What `afo serve` makes of its command line and its file, before the server takes over."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from afo.errors import NotFound, UsageError
from afo.serving import processor_library
from afo_client.cli import serve
from afo_client.serving import model_server
from afo_client.serving.serving_config import ServingConfig

JOB = "local_1700000000000_1"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServingConfig]:
    """Configurations of servers that were not started."""
    configs: list[ServingConfig] = []
    monkeypatch.setattr(model_server, "become", configs.append)
    return configs


def call(*words: str) -> None:
    CliRunner().invoke(serve.command, list(words), catch_exceptions=False, standalone_mode=False)


def job_that_exported(monkeypatch: pytest.MonkeyPatch, place: str, name: str) -> None:
    ref = SimpleNamespace(job_id=JOB)
    monkeypatch.setattr(serve, "load_config", lambda: None)
    monkeypatch.setattr(serve, "find_job", lambda _config, _named: ref)
    monkeypatch.setattr(serve, "places", lambda _ref: {"model": place})
    monkeypatch.setattr(serve, "submitted_config", lambda *_: SimpleNamespace(job=SimpleNamespace(name=name)))


def test_directories_have_names_and_ports(served: list[ServingConfig], tmp_path: Path) -> None:
    (tmp_path / "ctr").mkdir()
    call(str(tmp_path / "ctr"), f"cvr={tmp_path / 'ctr'}", "--host", "::1", "--grpc-port", "0")
    [config] = served
    assert [(model.name, model.base_path) for model in config.models] == [
        ("ctr", str(tmp_path / "ctr")), ("cvr", str(tmp_path / "ctr")),
    ]  # fmt: skip
    assert (config.grpc.address, config.rest.address) == ("[::1]:0", "[::1]:8501")


def test_a_job_is_served_under_its_name_or_another_one(
    served: list[ServingConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_that_exported(monkeypatch, f"file://{tmp_path}", "clicks")
    call()
    call(JOB)
    call(f"ctr={JOB}")
    assert [config.models[0].name for config in served] == ["clicks", "clicks", "ctr"]
    assert {config.models[0].base_path for config in served} == {str(tmp_path)}
    job_that_exported(monkeypatch, str(tmp_path), "clicks of a day")
    with pytest.raises(UsageError, match=rf"'clicks of a day'.*name the model: `afo serve NAME={JOB}`"):
        call()


def test_a_job_whose_model_is_not_there_is_refused(
    served: list[ServingConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_that_exported(monkeypatch, str(tmp_path / "none"), "ctr")
    with pytest.raises(NotFound, match="has exported nothing to"):
        call()
    assert served == []


def test_a_model_in_hdfs_is_copied_into_the_state_directory(
    served: list[ServingConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    call("ctr=hdfs://ns/models/ctr")
    (tmp_path / "serving.yaml").write_text(
        "models: [{name: ctr, base_path: 'hdfs://ns/models/ctr'}]\ncache_directory: cache\n"
        "kerberos: {principal: ranking@EXAMPLE.COM, keytab: ranking.keytab}\n"
    )
    call("--config", str(tmp_path / "serving.yaml"))
    assert [config.models[0].base_path for config in served] == ["hdfs://ns/models/ctr"] * 2
    assert [config.cache_directory for config in served] == [f"{tmp_path}/state/model-cache", f"{tmp_path}/cache"]
    assert served[1].kerberos is not None
    assert served[1].kerberos.keytab == f"{tmp_path}/ranking.keytab"
    with pytest.raises(UsageError, match=r"allowed: a directory here, or hdfs://NAMESERVICE/PATH; copy it there$"):
        call("ctr=webhdfs://ns/models/ctr")


def test_the_server_gets_the_file_in_seconds_and_bytes(
    served: list[ServingConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "serving.yaml"
    file.write_text(
        "models:\n- {name: ctr, base_path: ctr, model_version_policy: {specific: {versions: [3, 4]}},\n"
        "   version_labels: {stable: 3}, reserved_concurrency: 2}\n"
        "- {name: cvr, base_path: /models/cvr, model_version_policy: {all: {}}}\n"
        "limits: {request_size: 2 MiB, request_timeout: 500ms}\nshutdown_delay: 5s\n"
        "tls: {certificate: a.pem, key: a.key}\naccess_log: '-'\n"
    )
    call("--config", str(file))
    for name in ("path", "tensorflow"):
        monkeypatch.setattr(processor_library, name, lambda: Path("/there"))
    found: dict[str, Any] = model_server.arguments(served[0])
    assert found["models"] == [
        {"name": "ctr", "base_path": f"{tmp_path}/ctr", "version_labels": {"stable": 3},
         "reserved_concurrency": 2, "model_version_policy": {"specific": {"versions": [3, 4]}}},
        {"name": "cvr", "base_path": "/models/cvr", "version_labels": {}, "reserved_concurrency": 0,
         "model_version_policy": {"all": {}}},
    ]  # fmt: skip
    assert found["limits"] == {
        "request_size": 2 << 20, "request_timeout": 0.5, "concurrent_requests": 0, "queued_requests": 0,
    }  # fmt: skip
    assert (found["shutdown_delay"], found["drain_timeout"], found["access_log"]) == (5.0, 30.0, "-")
    assert found["tls"] == {"certificate": f"{tmp_path}/a.pem", "key": f"{tmp_path}/a.key", "client_ca": ""}
    assert found["processor"]["library"] == "/there"
