"""Tickets of a real KDC: whose there is, for how long, by a keytab, and what is said without."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerberos_realm as kdc
from afo.errors import NotFound, PermissionDenied, UsageError
from afo.hadoop import auth_to_local, kerberos
from afo.site.config import user_name
from afo_client.doctor import identity
from afo_client.hadoop.jars import resolve_jars
from afo_client.runtimes.yarn.keytab import sign_in
from live_job import afo

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kdc.Realm]:
    """Skips where the programs of a KDC are missing, but fails in continuous integration."""
    kdc.demand()
    found = kdc.Realm(tmp_path_factory.mktemp("realm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(found.config))
        patch.setenv("KRB5CCNAME", str(found.directory / "nobody"))
        try:
            found.start("alice", "bob", "etl/gateway.example", "HTTP/localhost")
            yield found
        finally:
            found.stop()


def test_whose_ticket_it_is(realm: kdc.Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(realm.cache("etl/gateway.example", "-l", "30m")))
    found = kerberos.ticket()
    assert found.principal == f"etl/gateway.example@{kdc.REALM}"
    assert kerberos.default_realm() == kdc.REALM
    assert 1700 < found.seconds <= 1800


def test_the_user_is_the_ticket_s_where_the_cluster_demands_kerberos(
    realm: kdc.Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demand = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{demand}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    monkeypatch.setenv("KRB5CCNAME", str(realm.cache("alice")))
    assert user_name() == "alice"


def test_a_proof_for_a_web_server(realm: kdc.Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(realm.cache("alice")))
    proof = kerberos.negotiate("localhost")
    assert proof[:1] == b"\x60", "an initial token of GSSAPI"
    assert kerberos.negotiate("localhost") != proof, "which is good for one request"
    with pytest.raises(PermissionDenied, match=r"HTTP/elsewhere\.example who asks"):
        kerberos.negotiate("elsewhere.example")


def test_without_a_ticket(realm: kdc.Realm) -> None:
    with pytest.raises(PermissionDenied, match="no valid ticket: run `kinit`"):
        kerberos.ticket()


def test_an_expired_ticket(realm: kdc.Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(realm.cache("alice", "-l", "1s")))
    time.sleep(2)
    with pytest.raises(PermissionDenied, match=r"expired|too old"):
        kerberos.ticket()


def test_tickets_by_a_keytab(realm: kdc.Realm) -> None:
    before = os.environ["KRB5CCNAME"]
    with sign_in(realm.keytab("bob"), ""):
        assert kerberos.ticket().principal == f"bob@{kdc.REALM}"
        cache = Path(os.environ["KRB5CCNAME"])
        assert cache.stat().st_mode & 0o077 == 0
    assert os.environ["KRB5CCNAME"] == before
    assert not cache.exists()


def test_a_keytab_without_that_principal(realm: kdc.Realm) -> None:
    with pytest.raises(PermissionDenied, match="no ticket of alice"), sign_in(realm.keytab("bob"), "alice"):
        pass


def test_options_that_make_no_sense(realm: kdc.Realm, tmp_path: Path) -> None:
    refused = afo("submit", "job.yaml", "--principal", "alice")
    assert (refused.returncode, "give a keytab" in refused.stderr) == (UsageError.exit_code, True)
    refused = afo("submit", "job.yaml", "--keytab", str(tmp_path / "none"))
    assert (refused.returncode, "there is no file" in refused.stderr) == (NotFound.exit_code, True)


def test_a_system_without_the_library_says_what_to_install() -> None:
    program = "from afo.hadoop import kerberos; kerberos._LIBRARY = 'libnowhere.so'; kerberos.ticket()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "install Kerberos' library, e.g. Debian's libgssapi-krb5-2" in done.stderr


@pytest.mark.parametrize(
    ("rules", "default_realm", "level", "words"),
    [
        ("DEFAULT", True, "ok", "alice, to Hadoop"),
        ("RULE:[1:$1@$0](alice@AFO.TEST)s/.*/etl/ DEFAULT", True, "ok", "etl, to Hadoop as to afo"),
        ("RULE:[1:$1@$0](.*@CORP)s/@.*//", True, "fail", "no rule of hadoop.security.auth_to_local"),
        ("DEFAULT", False, "fail", "krb5.conf has no default_realm"),
    ],
)
def test_hadoop_itself_says_whom_it_takes_a_ticket_for(
    realm: kdc.Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str, default_realm: bool, level: str,
    words: str,
) -> None:  # fmt: skip
    settings = {"hadoop.security.authentication": "kerberos", "hadoop.security.auth_to_local": rules}
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("KRB5CCNAME", str(realm.cache("alice")))
    ticket = kerberos.ticket()
    if not default_realm:
        lines = realm.config.read_text().splitlines()
        (tmp_path / "krb5.conf").write_text("\n".join(line for line in lines if "default_realm" not in line))
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    finding = identity.user(ticket, f"{tmp_path}:{resolve_jars()}/*")
    assert finding.level == level
    assert words in finding.text


PRINCIPALS = (
    "alice@AFO.TEST", "Alice@AFO.TEST", "etl/gateway@AFO.TEST", "hdfs/nn1@AFO.TEST", "bob@CORP", "bob-admin@CORP",
    "jobs/host@CORP", "o.neil@CORP",
)  # fmt: skip


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:[1:$1@$0](.*@CORP)s/@.*//\n  RULE:[2:$1@$0](.*@CORP)s/.*/service/ DEFAULT",
        "RULE:[2:$1;$2](^hdfs;.*)s/^(.*);(.*)$/$2_$1/ DEFAULT",
        "RULE:[1:$1@$0](.*)s/@.*///L DEFAULT/L",
        "RULE:[1:$1](.*-admin)s/-/+/g RULE:[1:corp.$1]s/o/0/ DEFAULT",
        "RULE:[1:$1@$0] DEFAULT",
    ],
)
def test_the_rules_are_read_as_hadoop_reads_them(
    realm: kdc.Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    """One principal after the other: Hadoop's program ends with the first that it makes nobody of."""
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
        f"<property><name>{auth_to_local.PROPERTY}</name><value>{rules}</value></property></configuration>"
    )
    class_path = f"{tmp_path}:{resolve_jars()}/*"
    for principal in PRINCIPALS:
        said = identity._hadoop_says(principal, class_path)
        ours = auth_to_local.user(principal, rules, kdc.REALM)
        if ours is None:
            assert "NoMatchingRule" in said, said
        else:
            assert f"Name: {principal} to {ours}\n" in said, said
