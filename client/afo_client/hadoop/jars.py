"""Hadoop's jars, resolved once through Maven from `conf/hadoop/pom.xml`, and the programs that this needs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from afo.errors import ClusterUnreachable, NotFound, UsageError

_RESOLVE_SECONDS = 900


def templates_dir() -> Path:
    """Where `pom.xml` and the site templates lie: `$AFO_CONF_DIR/hadoop`, else beside the sources, else in the wheel.

    Raises NotFound.
    """
    named = os.environ.get("AFO_CONF_DIR")
    places = [
        *([Path(named, "hadoop")] if named else []),
        Path(__file__).parents[3] / "conf" / "hadoop",
        Path(sys.prefix, "etc", "afo", "hadoop"),
    ]
    for place in places:
        if (place / "pom.xml").is_file():
            return place
    raise NotFound(f"no hadoop/pom.xml in {', '.join(map(str, places))}; set AFO_CONF_DIR to afo's conf directory")


def java_home() -> Path:
    """$JAVA_HOME, else the home of the `java` on PATH. Raises UsageError that says what to install."""
    if named := os.environ.get("JAVA_HOME"):
        if not os.access(Path(named, "bin", "java"), os.X_OK):
            raise UsageError(f"JAVA_HOME is {named}, but {named}/bin/java cannot be run; correct or unset JAVA_HOME")
        return Path(named)
    found = shutil.which("java")
    if found is None:
        raise UsageError("Java is missing; install version 11 or 17 (Debian: apt-get install default-jre-headless)")
    return Path(found).resolve().parents[1]


def resolve_jars(version: str = "") -> Path:
    """The directory that holds the jars of a Hadoop; '' is the version that pom.xml names.

    Only the first call for a version and a pom.xml runs Maven. Raises UsageError without Maven, ClusterUnreachable when
    Maven fails.
    """
    pom = templates_dir() / "pom.xml"
    text = pom.read_text()
    version = version or _own_version(text)
    target = _cache_dir(text, version)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".resolving-") as scratch:
        jars = Path(scratch, "jars")
        _run_maven(pom, version, jars)
        try:
            jars.rename(target)
        except OSError:
            # Somebody else resolved the same at the same time: theirs is as good.
            if not target.is_dir():
                raise
    return target


def _own_version(pom: str) -> str:
    version = re.search(r"<hadoop\.version>([\w.\-]+)</hadoop\.version>", pom)
    if version is None:
        raise NotFound(f"{templates_dir() / 'pom.xml'} names no <hadoop.version>")
    return version[1]


def _cache_dir(pom: str, version: str) -> Path:
    """`<cache>/hadoop/<version>-<hash of the pom>`: another pom never meets old jars."""
    cache = Path(os.environ.get("AFO_CACHE_DIR") or Path.home() / ".cache" / "afo")
    return cache / "hadoop" / f"{version}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}"


def _run_maven(pom: Path, version: str, output: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UsageError("Maven is missing; install it (Debian: apt-get install maven), it fetches Hadoop's jars")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={output}", "-DincludeScope=runtime"]
    options = ["--batch-mode", "--quiet", "-Dstyle.color=never", f"-Dhadoop.version={version}"]
    command = [maven, *options, "--file", str(pom), *goal]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RESOLVE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ClusterUnreachable(f"Maven did not fetch Hadoop {version} within {_RESOLVE_SECONDS} s: {maven}") from None
    if done.returncode or not output.is_dir():
        said = (done.stdout + done.stderr).strip()
        tail = "\n".join(said.splitlines()[-15:])
        raise ClusterUnreachable(f"Maven could not fetch Hadoop {version} for {pom}:\n{tail}{_trust_hint(said)}")


def _trust_hint(said: str) -> str:
    """What to do where Maven's Java does not know the certificate of the repository; '' for other failures."""
    if "PKIX path building failed" not in said:
        return ""
    return (
        f"\nThe trust store of the Java that ran Maven ({java_home()}) lacks the certificate authority of this "
        "repository. Set JAVA_HOME to a Java that has it for the first `afo cluster start` of a version, or import "
        "the certificate with keytool"
    )
