"""Checks of names by `afo doctor --cluster`: realms, the user that Hadoop makes of a principal, impersonation."""

import os
import subprocess
from collections.abc import Iterator

from afo.errors import ClusterUnreachable
from afo.hadoop import conf
from afo.hadoop.kerberos import Ticket
from afo.site.config import user_name, user_of
from afo_client.doctor.check_result import Finding
from afo_client.runtimes.yarn import java

#: Hadoop's own program that prints the user of a principal.
_MAIN_CLASS = "org.apache.hadoop.security.HadoopKerberosName"
_JAVA_S = 60.0
_PROXY_USER = "HADOOP_PROXY_USER"
_SERVICES = ("dfs.namenode.kerberos.principal", "yarn.resourcemanager.principal")
_NAME = "user's name"
#: Words of its refusals, what they mean, and what to do; the first that fits.
_REFUSALS = (
    (
        "Can't get Kerberos realm", "krb5.conf has no default_realm, without which Java submits nothing",
        "set default_realm in [libdefaults] of krb5.conf",
    ),
    (
        "No rules applied", "no rule of hadoop.security.auth_to_local makes a user of it",
        "take the cluster's own core-site.xml, or ask its administrator for a rule for this realm",
    ),
)  # fmt: skip


def proxy_user() -> Iterator[Finding]:
    """Nothing where nobody is to be impersonated."""
    if proxied := os.environ.get(_PROXY_USER):
        yield Finding(
            "proxy user", "fail",
            f"{_PROXY_USER} is {proxied}: Hadoop's libraries would act as {proxied}, but paths and calls of afo's are "
            f"{user_name()}'s; afo impersonates nobody",
            f"unset {_PROXY_USER}, and submit with a ticket or --keytab of {proxied}'s own",
        )  # fmt: skip


def realm(ticket: Ticket) -> Finding:
    """Of the ticket and of those whom it is shown to."""
    own = ticket.principal.partition("@")[2]
    services = {name: conf.setting(name) or "" for name in _SERVICES}
    foreign = [
        f"{name} is {service}" for name, service in services.items() if service.partition("@")[2] not in ("", own)
    ]
    if not foreign:
        return Finding("realm", "ok", f"{own}, and no service of the cluster is of another")
    return Finding(
        "realm", "warn", f"the ticket is of {own}, but {', '.join(foreign)}; that takes a trust between the realms",
        "`kvno` with a service's principal says whether there is one; else take a ticket of the cluster's realm",
    )  # fmt: skip


def user(ticket: Ticket, class_path: str) -> Finding:
    """Whom Hadoop takes the ticket's principal for, by its own rules. Raises `ClusterUnreachable`."""
    said = _hadoop_says(ticket.principal, class_path)
    for words, meaning, advice in _REFUSALS:
        if words in said:
            return Finding(_NAME, "fail", f"{ticket.principal}: {meaning}", advice)
    marker = f"Name: {ticket.principal} to "
    name = next((line.removeprefix(marker) for line in said.splitlines() if line.startswith(marker)), None)
    if name is None:
        raise ClusterUnreachable(f"{_MAIN_CLASS} says: {(said.splitlines() or ['nothing'])[-1]}")
    if name == (ours := user_of(ticket.principal)):
        return Finding(_NAME, "ok", f"{name}, to Hadoop as to afo")
    return Finding(
        _NAME, "fail", f"Hadoop makes {name} of {ticket.principal}, and afo {ours}",
        f"use a principal that begins with {name}, and report hadoop.security.auth_to_local: afo reads it otherwise",
    )  # fmt: skip


def _hadoop_says(principal: str, class_path: str) -> str:
    command = [java.command(), "-XX:TieredStopAtLevel=1", *java.realm_options(), "-cp", class_path, _MAIN_CLASS]
    try:
        done = subprocess.run(
            [*command, principal], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_JAVA_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterUnreachable(f"Java cannot report the user's name: {error}") from error
    return done.stderr + done.stdout
