"""`afo version`."""

import platform
from importlib import metadata

import click

from afo_client.console import print_json, print_result

#: Distributions whose versions decide how a job behaves; TensorFlow comes under several names.
DISTRIBUTIONS = ("afo", "tensorflow", "tensorflow-cpu", "protobuf", "grpcio", "skein", "hdfs-native", "numpy")


def versions() -> dict[str, str]:
    """Installed versions by name; nothing is imported for it."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@click.command(help="Print versions.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    """Print versions of afo and of what it stands on."""
    found = versions()
    if as_json:
        print_json({"versions": found})
    else:
        print_result("\n".join(f"{name} {version}" for name, version in found.items()))
