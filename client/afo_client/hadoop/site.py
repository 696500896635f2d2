"""The Hadoop configuration of a cluster: templates in `conf/hadoop`, filled in, and written for clients and daemons."""

from __future__ import annotations

import shutil
import string
from pathlib import Path
from xml.etree import ElementTree

from afo.errors import SpecError
from afo.hadoop.conf import read_properties
from afo_client.hadoop.cluster_layout import ClusterSpec, node_host, node_name
from afo_client.hadoop.jars import templates_dir

Properties = dict[str, str]

#: Which file a property of `ClusterSpec.settings` goes to: the first prefix that fits.
_FILE_BY_PREFIX = (
    ("yarn.scheduler.capacity.", "capacity-scheduler.xml"),
    ("yarn.", "yarn-site.xml"),
    ("dfs.", "hdfs-site.xml"),
    ("", "core-site.xml"),
)
#: Copied as they are.
_PLAIN_FILES = ("log4j.properties", "fair-scheduler.xml")
_CLIENT_FILES = tuple(file for _, file in _FILE_BY_PREFIX)


def write_configuration(directory: Path, spec: ClusterSpec, jars: Path) -> None:
    """Writes `<directory>/conf`, for clients and masters, and `<directory>/nodemanager-<i>/conf`.

    Raises SpecError for a template that uses an unknown name.
    """
    values = _values(directory, spec, jars)
    client = {file: _fill_template(file, values, spec) for file in _CLIENT_FILES}
    _write(directory / "conf", client)
    for index in range(1, spec.nodes + 1):
        own = {"host": node_host(index), "name": node_name(index), **_texts(spec.node_ports(index))}
        node = _fill_template("nodemanager-site.xml", {**values, **own}, spec)
        yarn = {**client["yarn-site.xml"], **node, **_overrides("yarn-site.xml", spec)}
        _write(directory / node_name(index) / "conf", {**client, "yarn-site.xml": yarn})


def _values(directory: Path, spec: ClusterSpec, jars: Path) -> dict[str, str]:
    return {
        **_texts(spec.master_ports()),
        "directory": str(directory),
        "jars": str(jars),
        "node_memory_mb": str(int(spec.node_memory)),
        "node_vcores": str(spec.node_vcores),
        "node_expiry_ms": str(int(spec.node_expiry * 1000)),
    }


def _texts(numbers: dict[str, int]) -> dict[str, str]:
    return {name: str(number) for name, number in numbers.items()}


def _fill_template(file: str, values: dict[str, str], spec: ClusterSpec) -> Properties:
    template = templates_dir() / file
    properties = {}
    for name, value in read_properties(template).items():
        try:
            properties[name] = string.Template(value).substitute(values)
        except (KeyError, ValueError) as error:
            raise SpecError(f"{template}: {name}: cannot fill in {value!r}: {error}") from error
    return {**properties, **_overrides(file, spec)}


def _overrides(file: str, spec: ClusterSpec) -> Properties:
    """The settings of the user that belong into this file."""

    def file_of(name: str) -> str:
        return next(file for prefix, file in _FILE_BY_PREFIX if name.startswith(prefix))

    return {name: value for name, value in spec.settings.items() if file_of(name) == file}


def _write(conf_dir: Path, files: dict[str, Properties]) -> None:
    conf_dir.mkdir(parents=True, exist_ok=True)
    for name in _PLAIN_FILES:
        shutil.copyfile(templates_dir() / name, conf_dir / name)
    for name, properties in files.items():
        write_site(conf_dir / name, properties)


def write_site(path: Path, properties: Properties) -> None:
    root = ElementTree.Element("configuration")
    for name, value in properties.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    ElementTree.indent(root)
    # Renamed into place: a client may read while a cluster starts again.
    temporary = path.with_name(f".{path.name}.tmp")
    ElementTree.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)
    temporary.replace(path)
