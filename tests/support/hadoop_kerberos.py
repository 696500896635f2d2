"""A real Hadoop whose HDFS and YARN demand Kerberos, with SASL between clients and DataNodes."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import hdfs_native
import pytest

from adult import REPOSITORY
from afo import storage
from afo_client.hadoop import Cluster, ClusterSpec
from kerberos_realm import REALM, Realm
from live_job import LiveJob, afo

DEMO = REPOSITORY / "conf" / "jobs" / "demo.yaml"
#: Its daemons' principals, and people.
SERVICES = ("hdfs/localhost", "yarn/localhost", "HTTP/127.0.0.1", "HTTP/127.0.0.2")
PEOPLE = ("hdfs", "alice", "bob")


def settings(realm: Realm) -> dict[str, str]:
    """Of daemons and clients. Ports of web interfaces are high, which Hadoop allows for tests."""

    def of(service: str, principal: str, keytab: str) -> dict[str, str]:
        return _identity(realm, f"{service}/localhost", principal, keytab)

    web = "dfs.web.authentication.kerberos"
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": "integrity",
        "ignore.secure.ports.for.testing": "true",
        **of("hdfs", "dfs.namenode.kerberos.principal", "dfs.namenode.keytab.file"),
        **of("hdfs", "dfs.datanode.kerberos.principal", "dfs.datanode.keytab.file"),
        **_identity(realm, "HTTP/127.0.0.1", f"{web}.principal", f"{web}.keytab"),
        **of("yarn", "yarn.resourcemanager.principal", "yarn.resourcemanager.keytab"),
        **of("yarn", "yarn.nodemanager.principal", "yarn.nodemanager.keytab"),
        # With Kerberos, a NodeManager that collects logs ends itself for want of Hadoop's native library.
        "yarn.log-aggregation-enable": "false",
        # What /etc/krb5.conf is elsewhere.
        "yarn.nodemanager.admin-env": f"KRB5_CONFIG={realm.config},"
        f"JAVA_TOOL_OPTIONS=-Djava.security.krb5.conf={realm.config}",
    }


def guarded_web(realm: Realm) -> dict[str, str]:
    """Web interfaces demand a ticket, or a token for their service."""

    def of(principal: str, keytab: str) -> dict[str, str]:
        return _identity(realm, "HTTP/127.0.0.1", principal, keytab)

    http, manager = "hadoop.http.authentication", "yarn.resourcemanager.webapp"
    return {
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
        f"{http}.type": "kerberos",
        f"{http}.simple.anonymous.allowed": "false",
        # Nodes have addresses of their own: each uses the key for what it is called.
        **of(f"{http}.kerberos.principal", f"{http}.kerberos.keytab") | {f"{http}.kerberos.principal": "*"},
        **of(f"{manager}.spnego-principal", f"{manager}.spnego-keytab-file"),
    }


def _identity(realm: Realm, name: str, principal: str, keytab: str) -> dict[str, str]:
    return {principal: f"{name}@{REALM}", keytab: str(realm.keytab(name))}


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
def secured(
    directory: Path, *, nodes: int = 1, open_web: bool = False, others: Mapping[str, str] = types.MappingProxyType({})
) -> Iterator[SecuredCluster]:
    """Starts it with a home in HDFS for each person; this process knows it by its environment meanwhile.

    With `open_web` its web interfaces know nobody, as Hadoop comes. `others` are further settings.
    """
    realm, cluster = Realm(directory / "realm"), Cluster(directory / "hadoop")
    with pytest.MonkeyPatch.context() as patch:
        try:
            realm.start(*SERVICES, *PEOPLE)
            for name in ("KRB5_CONFIG", "JAVA_TOOL_OPTIONS"):
                patch.setenv(name, realm.environment()[name])
            patch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
            patch.setenv("KRB5CCNAME", str(realm.cache("hdfs")))
            web = {} if open_web else guarded_web(realm)
            cluster.start(ClusterSpec(nodes=nodes, settings={**settings(realm), **web, **others}))
            files = hdfs_native.Client(cluster.hdfs_uri)
            for person in PEOPLE[1:]:
                storage.make_dirs(f"{cluster.hdfs_uri}/user/{person}", mode=0o700)
                files.set_owner(f"/user/{person}", person)
            patch.setenv("KRB5CCNAME", str(directory / "nobody.cache"))
            yield SecuredCluster(realm, cluster)
        finally:
            cluster.stop()
            realm.stop()


def long_job(cluster: SecuredCluster, directory: Path, patch: pytest.MonkeyPatch, *options: str) -> LiveJob:
    """A small job of Alice's on YARN, which has begun to train and would for hours."""
    cluster.sign_in(patch, "alice")
    patch.setenv("AFO_STATE_DIR", str(directory / "state"))
    patch.setenv("PATH", str(cluster.cluster.bin_dir), prepend=os.pathsep)
    home = f"{cluster.url}/user/alice"
    made = afo("data", "synth", f"{home}/clicks", "--train", "4000", "--eval", "100", "--train-files", "2")
    assert made.returncode == 0, made.stderr
    changes = ("data.epochs=100000", "checkpoint.every=10s", "roles.ps.instances=1", "roles.worker.instances=1")
    given = (f"--var=data={home}/clicks", *(f"--set={each}" for each in changes), *options)
    job = LiveJob.submit(DEMO, f"{home}/.afo/jobs", "--runtime=yarn", *given)
    job.wait(lambda: job.step() > 0, "training")
    return job
