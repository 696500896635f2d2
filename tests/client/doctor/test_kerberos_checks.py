"""`afo doctor --cluster` on clusters with Kerberos that lack something; `test_kerberos.py` has one that is complete."""

from pathlib import Path

import pytest

from afo.errors import PermissionDenied
from afo.hadoop import kerberos
from afo.hadoop.kerberos import Ticket
from afo_client.doctor.check_result import Finding
from afo_client.doctor.identity import proxy_user
from afo_client.doctor.kerberos_checks import kerberos_checks


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hadoop configuration, and a ticket for ten hours."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setattr(kerberos, "ticket", lambda: Ticket("alice@REALM", 36_000))
    monkeypatch.setattr(kerberos, "default_realm", lambda: "REALM")
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf"


def configure(conf: Path, **settings: str) -> None:
    """yarn-site.xml; `__` in a name stands for a dot, `_` for a hyphen."""
    names = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in names.items())
    (conf / "yarn-site.xml").write_text(f"<configuration>{properties}</configuration>")


def yarn_says(text: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A `yarn` command that prints this, and no other on PATH."""
    folder.mkdir()
    (folder / "yarn").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "yarn").chmod(0o700)
    patch.setenv("PATH", str(folder))


def found(name: str) -> Finding:
    """Of all findings the one of this name."""
    return next(each for each in kerberos_checks() if each.name == name)


def test_without_a_ticket_nothing_else_is_asked(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Ticket:
        raise PermissionDenied("there is no ticket")

    monkeypatch.setattr(kerberos, "ticket", none)
    [finding] = kerberos_checks()
    assert (finding.level, finding.text, finding.code) == ("fail", "there is no ticket", 4)
    assert "kinit" in finding.advice


@pytest.mark.parametrize(("seconds", "level"), [(36_000, "ok"), (599, "warn")])
def test_how_long_the_ticket_is_good(conf: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, level: str) -> None:
    monkeypatch.setattr(kerberos, "ticket", lambda: Ticket("alice@REALM", seconds))
    assert found("Kerberos").level == level
    assert "alice@REALM, whose ticket is good for" in found("Kerberos").text


def test_who_renews_tokens(conf: Path) -> None:
    assert found("delegation tokens").level == "fail"
    configure(conf, yarn__resourcemanager__principal="yarn/_HOST@REALM")
    assert "nobody" not in found("delegation tokens").text
    assert "containers cannot start after" in found("delegation tokens").text
    configure(
        conf, yarn__resourcemanager__principal="yarn@R",
        yarn__resourcemanager__proxy_user_privileges__enabled="true",
    )  # fmt: skip
    assert "renewed by yarn@R; containers can start after" in found("delegation tokens").text


def test_the_jar_that_a_submission_takes(conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    yarn_says(f"echo {conf}:{jars}/*", tmp_path / "wildcard", monkeypatch)
    assert found("class path").level == "fail"
    (jars / "hadoop-mapreduce-client-core-3.3.6.jar").touch()
    assert found("class path").level == "ok"
    yarn_says("echo /etc/hadoop:/x/hadoop-mapreduce-client-core-3.1.4.jar", tmp_path / "glob", monkeypatch)
    assert found("class path").level == "ok"


@pytest.mark.parametrize("script", ["exit 1", ""])
def test_a_yarn_command_that_is_not_there_or_does_not_work(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    yarn_says(script, tmp_path / "bin", monkeypatch)
    if not script:
        (tmp_path / "bin" / "yarn").unlink()
    finding = found("class path")
    assert (finding.level, finding.code) == ("fail", 6)
    assert "`yarn`" in finding.advice


def test_a_service_of_another_realm(conf: Path) -> None:
    assert found("realm").level == "ok"
    ours, theirs = "yarn/_HOST@REALM", "hdfs/nn@CORP"
    configure(conf, yarn__resourcemanager__principal=ours, dfs__namenode__kerberos__principal=theirs)
    finding = found("realm")
    assert finding.level == "warn"
    assert "of REALM, but dfs.namenode.kerberos.principal is hdfs/nn@CORP; that takes a trust" in finding.text


@pytest.mark.parametrize(
    ("said", "level", "text"),
    [
        ("Name: alice@REALM to alice", "ok", "alice, to Hadoop as to afo"),
        ("Name: alice@REALM to etl", "fail", "Hadoop makes etl of alice@REALM, and afo alice"),
        ("IllegalArgumentException: Can't get Kerberos realm", "fail", "alice@REALM: krb5.conf has no default_realm"),
        ("NoMatchingRule: No rules applied to alice@REALM", "fail", "alice@REALM: no rule of hadoop.security"),
        ("Error: no main class", "fail", "HadoopKerberosName says: Error: no main class"),
    ],
)
def test_whom_hadoop_takes_the_principal_for(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, level: str, text: str
) -> None:
    yarn_says("echo /etc/hadoop", tmp_path / "bin", monkeypatch)
    (tmp_path / "bin" / "java").write_text(f'#!/bin/sh\necho "{said}"\n')
    (tmp_path / "bin" / "java").chmod(0o700)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    finding = found("user's name")
    assert finding.level == level
    assert text in finding.text


def test_without_java_the_user_s_name_is_not_known(conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yarn_says("echo /etc/hadoop", tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Java cannot report the user's name" in found("user's name").text


def test_nobody_is_impersonated(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_PROXY_USER", raising=False)
    assert list(proxy_user()) == []
    monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
    [finding] = proxy_user()
    assert (finding.level, finding.code) == ("fail", 1)
    assert "would act as bob" in finding.text
    assert "--keytab of bob's own" in finding.advice
