"""Versions of what is installed."""

import platform
from importlib import metadata

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
