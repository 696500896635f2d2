"""Checks of `afo doctor --cluster` where the cluster demands Kerberos; `docs/kerberos.md`."""

import functools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from afo.errors import ClusterUnreachable, PermissionDenied
from afo.hadoop import conf, kerberos
from afo.hadoop.kerberos import Ticket
from afo_client.doctor import identity
from afo_client.doctor.check_result import Finding, run_check
from afo_client.terminal.console import span_text

#: A ticket with less life than this may end while a submission is prepared, in seconds.
LOW_TICKET_S = 600
_CLASS_PATH_S = 60.0
#: skein's driver gets delegation tokens by a class of it.
_JAR = "hadoop-mapreduce-client-core"


def kerberos_checks() -> Iterator[Finding]:
    """Who asks, and what a submission takes beyond that. Ends with the first where there is no ticket."""
    try:
        ticket = kerberos.ticket()
    except PermissionDenied as error:
        advice = "run `kinit`, or give `afo submit` a --keytab"
        yield Finding("Kerberos", "fail", str(error), advice, error.exit_code)
        return
    yield _life(ticket)
    yield identity.realm(ticket)
    yield _renewer()
    try:
        class_path = _class_path()
    except ClusterUnreachable as error:
        advice = "put Hadoop's `yarn` command on PATH, and see that it runs"
        yield Finding("class path", "fail", str(error), advice, error.exit_code)
        return
    yield _token_classes(class_path)
    ask = functools.partial(identity.user, ticket, class_path)
    yield run_check("user's name", ask, "check that Java and Hadoop's own commands run")


def _life(found: Ticket) -> Finding:
    text = f"{found.principal}, whose ticket is good for {span_text(found.seconds)}"
    if found.seconds < LOW_TICKET_S:
        return Finding("Kerberos", "warn", text, "run `kinit` again before it ends")
    return Finding("Kerberos", "ok", text)


def _renewer() -> Finding:
    renewer = conf.setting("yarn.resourcemanager.principal")
    if not renewer:
        return Finding(
            "delegation tokens", "fail", "nobody would renew them: yarn-site.xml names no ResourceManager's principal",
            "set yarn.resourcemanager.principal to what the cluster's own yarn-site.xml says",
        )  # fmt: skip
    proxy = conf.setting("yarn.resourcemanager.proxy-user-privileges.enabled") == "true"
    later = "can" if proxy else "cannot"
    return Finding(
        "delegation tokens", "ok", f"renewed by {renewer}; containers {later} start after a job's tokens have ended"
    )


def _class_path() -> str:
    """Raises ClusterUnreachable where `yarn classpath` does not say it."""
    yarn = shutil.which("yarn")
    if yarn is None:
        raise ClusterUnreachable("there is no `yarn` command on PATH, by which a job is submitted")
    try:
        done = subprocess.run(
            [yarn, "classpath", "--glob"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_CLASS_PATH_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterUnreachable(f"`yarn classpath --glob` does not work: {error}") from error
    return done.stdout.strip()


def _token_classes(class_path: str) -> Finding:
    if any(_holds_jar(Path(entry)) for entry in class_path.split(":")):
        return Finding("class path", "ok", f"`yarn classpath` has {_JAR}")
    advice = "add Hadoop's share/hadoop/mapreduce to the class path, e.g. by HADOOP_CLASSPATH"
    return Finding("class path", "fail", f"`yarn classpath` lacks {_JAR}, by which delegation tokens are got", advice)


def _holds_jar(entry: Path) -> bool:
    """An entry is a jar, a directory, or all jars of a directory."""
    return entry.name.startswith(_JAR) or (entry.name == "*" and any(entry.parent.glob(f"{_JAR}*.jar")))
