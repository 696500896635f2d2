"""What `afo serve` makes of its command line and its file, before the server takes over."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from afo.errors import NotFound, SpecError, UsageError
from afo.serving import processor_library
from afo_client.cli import serve
from afo_client.serving import model_server
from afo_client.serving.serving_config import ServingConfig

JOB = "local_1700000000000_1"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ServingConfig]:
    """Configurations of servers that were not started."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    configs: list[ServingConfig] = []
    monkeypatch.setattr(model_server, "become", lambda config, _state: configs.append(config))
    return configs


def call(*words: str) -> None:
    CliRunner().invoke(serve.command, list(words), catch_exceptions=False, standalone_mode=False)


def job_that_exported(monkeypatch: pytest.MonkeyPatch, place: str, name: str) -> None:
    ref = SimpleNamespace(job_id=JOB)
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
        "name: ads\nlimits: {request_size: 2 MiB, request_timeout: 500ms}\nshutdown_delay: 5s\n"
        "tls: {certificate: a.pem, key: a.key}\naccess_log: '-'\n"
    )
    call("--config", str(file))
    for name in ("path", "tensorflow"):
        monkeypatch.setattr(processor_library, name, lambda: Path("/there"))
    found: dict[str, Any] = model_server.arguments(served[0], tmp_path / "state")
    assert found["models"] == [
        {"name": "ctr", "base_path": f"{tmp_path}/ctr", "version_labels": {"stable": 3},
         "reserved_concurrency": 2, "model_version_policy": {"specific": {"versions": [3, 4]}}},
        {"name": "cvr", "base_path": "/models/cvr", "version_labels": {}, "reserved_concurrency": 0,
         "model_version_policy": {"all": {}}},
    ]  # fmt: skip
    assert found["limits"] == {
        "request_size": 2 << 20, "request_timeout": 0.5, "concurrent_requests": 0, "queued_requests": 0,
        "connections": 1000,
    }  # fmt: skip
    assert (found["shutdown_delay"], found["drain_timeout"], found["access_log"]) == (5.0, 30.0, "-")
    assert found["tls"] == {"certificate": f"{tmp_path}/a.pem", "key": f"{tmp_path}/a.key", "client_ca": ""}
    assert found["processor"]["library"] == "/there"
    servers = f"{tmp_path}/state/servers"
    assert (found["name"], found["control"]) == (
        "ads", {"socket": f"{servers}/ads.sock", "state_file": f"{servers}/ads.json"},
    )  # fmt: skip


def test_a_rollout_has_defaults_and_its_times_are_seconds(served: list[ServingConfig], tmp_path: Path) -> None:
    file = tmp_path / "serving.yaml"
    file.write_text(
        "models:\n- {name: ctr, base_path: ctr, canary: {duration: 2m, gate: {min_requests: 50}}}\n"
        "- {name: cvr, base_path: cvr, version_labels: {stable: 3, next: 4},\n"
        "   traffic: {hash_header: x-user-id, split: {stable: 90, next: 10}, mirror: {label: next, percent: 5}}}\n"
    )
    call("--config", str(file), "--name", "ads")
    [config] = served
    found = model_server.arguments(config, tmp_path)
    assert (found["name"], found["models"][0]["canary"]) == ("ads", {
        "traffic_percent": 5, "duration": 120.0, "hash_header": "",
        "gate": {"max_error_rate": 0.01, "max_latency_ratio": 1.5, "max_score_psi": 0.2, "min_requests": 50},
    })  # fmt: skip
    assert found["models"][1]["traffic"] == {
        "hash_header": "x-user-id", "split": {"stable": 90, "next": 10}, "mirror": {"label": "next", "percent": 5},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("canary: {traffic_percent: 100}", r"traffic_percent"),
        ("canary: {duration: 2d}", "`duration` is 2d s; allowed: 0.001 s to 1d"),
        ("canary: {hash_header: X-User}", "`hash_header` is 'X-User'; allowed: small letters"),
        ("canary: {}, model_version_policy: {all: {}}", "takes up as `latest` alone"),
        ("canary: {}, version_labels: {a: 1}, traffic: {split: {a: 100}}", "`canary` and `traffic.split` are both"),
        ("traffic: {}", "neither `split` nor `mirror`"),
        ("version_labels: {a: 1, b: 2}, traffic: {split: {a: 90, b: 9}}", "`split` has 99 percent in all"),
        ("traffic: {mirror: {label: a, percent: 5}}", "`traffic` has 'a', which is no label of `version_labels`"),
    ],
)  # fmt: skip
def test_a_rollout_that_is_wrong_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "serving.yaml"
    file.write_text(f"models: [{{name: ctr, base_path: ctr, {text}}}]\n")
    with pytest.raises(SpecError, match=re.escape(words)):
        call("--config", str(file))


def test_a_name_that_is_none_is_refused(served: list[ServingConfig], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--name: `name` is 'a/b'; allowed: letters, digits"):
        call(f"ctr={tmp_path}", "--name", "a/b")
    assert served == []
