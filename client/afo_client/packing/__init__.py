"""A Python environment as one archive that runs wherever it is unpacked: interpreter, standard library, packages."""

from afo_client.packing.pack import Packed, pack

__all__ = ["Packed", "pack"]
