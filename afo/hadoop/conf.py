"""The few Hadoop settings that afo reads itself, from the XML files in `$HADOOP_CONF_DIR`."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from afo.errors import ClusterUnreachable

_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")


def conf_dir() -> Path | None:
    """The directory named by $HADOOP_CONF_DIR, else $HADOOP_HOME/etc/hadoop, else None."""
    if named := os.environ.get("HADOOP_CONF_DIR"):
        return Path(named)
    if home := os.environ.get("HADOOP_HOME"):
        return Path(home, "etc", "hadoop")
    return None


def setting(name: str) -> str | None:
    """The value of a Hadoop property, None where no file sets it.

    Raises ClusterUnreachable for a file that is not XML.
    """
    directory = conf_dir()
    if directory is None:
        return None
    for file in (directory / file_name for file_name in _FILES):
        if file.is_file() and (value := read_properties(file).get(name)) is not None:
            return value
    return None


def demands_kerberos() -> bool:
    """Whether the configuration is of a cluster with Kerberos. Raises ClusterUnreachable for a file that is not XML."""
    return (setting("hadoop.security.authentication") or "simple").lower() == "kerberos"


def read_properties(file: Path) -> dict[str, str]:
    """Name to value of a Hadoop XML file, in its order. Raises ClusterUnreachable."""
    try:
        root = ElementTree.parse(file).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise ClusterUnreachable(f"cannot read the Hadoop configuration {file}: {error}") from error
    pairs = ((element.findtext("name"), element.findtext("value")) for element in root.iter("property"))
    return {name.strip(): (value or "").strip() for name, value in pairs if name}
