"""Which version of Hadoop a cluster is made of."""

import os
from pathlib import Path

import pytest

from afo.errors import ClusterUnreachable, UsageError
from afo_client.hadoop import ClusterSpec
from afo_client.hadoop.jars import resolve_jars

#: Stands for Maven: copies one jar that is named for the version it was asked for, and knows no 9.9.9.
MAVEN = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    -Dhadoop.version=9.9.9) echo "no such artifact" >&2; exit 1 ;;
    -Dhadoop.version=*) version=${word#*=} ;;
    -DoutputDirectory=*) output=${word#*=} ;;
  esac
done
mkdir -p "$output" && touch "$output/hadoop-common-$version.jar"
"""


@pytest.fixture(autouse=True)
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(MAVEN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("AFO_CACHE_DIR", str(tmp_path / "cache"))
    return program


def test_each_version_has_jars_of_its_own(maven: Path) -> None:
    old, own = resolve_jars("2.10.2"), resolve_jars()
    assert (old / "hadoop-common-2.10.2.jar").exists()
    assert own != old
    assert own.name.startswith(next(own.iterdir()).stem.removeprefix("hadoop-common-"))
    maven.write_text("exit 1")  # is not asked again
    assert resolve_jars("2.10.2") == old


def test_a_version_that_is_not_there_is_named() -> None:
    with pytest.raises(ClusterUnreachable, match=r"could not fetch Hadoop 9\.9\.9 for .*pom\.xml:\nno such artifact"):
        resolve_jars("9.9.9")


def test_a_java_without_the_certificate_is_named(maven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = maven.parent / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(maven.parent.parent))
    maven.write_text("#!/bin/sh\necho 'PKIX path building failed: unable to find valid certification path'; exit 1\n")
    with pytest.raises(ClusterUnreachable, match=rf"ran Maven \({maven.parent.parent}\) lacks .* JAVA_HOME"):
        resolve_jars("3.3.6")


@pytest.mark.parametrize("version", ["3", "3.3", "newest", "../3.3.6", "3.3.6\n", "3.4.1-SNAPSHOT"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match=r"--hadoop is .*e\.g\. 3\.3\.6"):
        ClusterSpec(hadoop=version)
