"""A real Hadoop whose HDFS and YARN demand Kerberos, with SASL between clients and DataNodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hdfs_native
import pytest

from afo import storage
from afo_client.hadoop import Cluster, ClusterSpec
from kerberos import REALM, Realm

#: Its daemons' principals, and people.
SERVICES, PEOPLE = ("hdfs/localhost", "yarn/localhost", "HTTP/localhost"), ("hdfs", "alice", "bob")


def settings(realm: Realm) -> dict[str, str]:
    """Of all daemons and clients. Web interfaces stay open on high ports, which Hadoop allows for tests."""

    def of(service: str, principal: str, keytab: str) -> dict[str, str]:
        name = f"{service}/localhost"
        return {principal: f"{name}@{REALM}", keytab: str(realm.keytab(name))}

    web = "dfs.web.authentication.kerberos"
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": "integrity",
        "ignore.secure.ports.for.testing": "true",
        **of("hdfs", "dfs.namenode.kerberos.principal", "dfs.namenode.keytab.file"),
        **of("hdfs", "dfs.datanode.kerberos.principal", "dfs.datanode.keytab.file"),
        **of("HTTP", f"{web}.principal", f"{web}.keytab"),
        **of("yarn", "yarn.resourcemanager.principal", "yarn.resourcemanager.keytab"),
        **of("yarn", "yarn.nodemanager.principal", "yarn.nodemanager.keytab"),
    }


class SecuredCluster:
    """The cluster, and who is who. Nobody has a ticket unless a test calls `sign_in`."""

    def __init__(self, realm: Realm, cluster: Cluster) -> None:
        self.realm, self.cluster = realm, cluster

    @property
    def url(self) -> str:
        """Of HDFS."""
        return self.cluster.hdfs_uri

    def sign_in(self, patch: pytest.MonkeyPatch, person: str, *options: str) -> None:
        """`kinit` for this process and those that it starts."""
        patch.setenv("KRB5CCNAME", str(self.realm.cache(person, *options)))


@contextmanager
def secured(directory: Path) -> Iterator[SecuredCluster]:
    """Starts it with a home in HDFS for each person; this process knows it by its environment meanwhile."""
    realm, cluster = Realm(directory / "realm"), Cluster(directory / "hadoop")
    with pytest.MonkeyPatch.context() as patch:
        try:
            realm.start(*SERVICES, *PEOPLE)
            for name in ("KRB5_CONFIG", "JAVA_TOOL_OPTIONS"):
                patch.setenv(name, realm.environment()[name])
            patch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
            patch.setenv("KRB5CCNAME", str(realm.cache("hdfs")))
            cluster.start(ClusterSpec(nodes=1, settings=settings(realm)))
            files = hdfs_native.Client(cluster.hdfs_uri)
            for person in PEOPLE[1:]:
                storage.make_dirs(f"{cluster.hdfs_uri}/user/{person}", mode=0o700)
                files.set_owner(f"/user/{person}", person)
            patch.setenv("KRB5CCNAME", str(directory / "nobody.cache"))
            yield SecuredCluster(realm, cluster)
        finally:
            cluster.stop()
            realm.stop()
