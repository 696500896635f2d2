"""A model server that copies from an HDFS that demands Kerberos, and encrypts what it sends."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerberos_realm
from afo import storage
from hadoop_kerberos import SecuredCluster, secured
from processor_build import require_model_server
from served_models import ServedModels

pytestmark = [pytest.mark.hadoop, pytest.mark.slow]

#: What the server's client can read; `integrity`, which it cannot, is that of the other clusters here.
PROTECTED = {
    "dfs.data.transfer.protection": "privacy", "dfs.encrypt.data.transfer.cipher.suites": "AES/CTR/NoPadding",
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Skips where the programs of a KDC are missing, but fails in continuous integration."""
    require_model_server()
    kerberos_realm.demand()
    with secured(tmp_path_factory.mktemp("secured"), others=PROTECTED) as found:
        yield found


@pytest.mark.parametrize("by", ["ticket", "keytab"])
def test_a_model_is_copied_by_a_ticket_or_a_keytab(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """What is copied is no model, as the server says; that it is whole is for this test to see."""
    cluster.sign_in(monkeypatch, "alice")
    home, table = f"{cluster.url}/user/alice/{by}", os.urandom(3 << 20)
    storage.write_bytes(f"{home}/ctr/7/variables/table", table)
    storage.write_bytes(f"{home}/ctr/7/saved_model.pb", b"junk")
    config = tmp_path / "serving.yaml"
    config.write_text(
        f"models: [{{name: ctr, base_path: '{home}/ctr'}}]\ngrpc: {{address: '127.0.0.1:0'}}\n"
        "rest: {address: '127.0.0.1:0'}\ncache_directory: cache\n"
    )
    if by == "keytab":
        keytab = cluster.realm.keytab("alice")
        with config.open("a") as file:
            file.write(f"kerberos: {{principal: 'alice@{kerberos_realm.REALM}', keytab: {keytab}}}\n")
        monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    with ServedModels("--config", str(config), log=tmp_path / "log") as server:
        server.said("cannot be loaded")
    [copied] = (tmp_path / "cache").glob("*/7/variables/table")
    assert copied.read_bytes() == table
