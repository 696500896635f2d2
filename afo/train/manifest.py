"""The manifest that makes a set of files a checkpoint. No TensorFlow here.

    <checkpoint url>/g000001-s000000001234-<random>/<tensor>.<part>.npy   a directory for each try
    <checkpoint url>/manifest-g000001-s000000001234[-final].json          written last, and only once

Readers take the manifest of the highest generation and step; a directory without one is not a checkpoint.
"""

import re
from pathlib import Path

import google_crc32c
import msgspec

from afo import storage
from afo.errors import AlreadyExists, DataError, NotFound

#: Raised when a reader of an older version could not read what this one writes.
FORMAT_VERSION = 1
_NAME = re.compile(r"^manifest-g(\d{6,})-s(\d{12,})(-final)?\.json$")
_BLOCK = 1 << 20


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: every `parts`-th row of a tensor, from row `part` on. A whole tensor is part 0 of 1."""

    tensor: str
    file: str
    part: int
    parts: int
    size: int
    crc32c: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All of one checkpoint. `rows` says how many rows each table has altogether."""

    version: int
    generation: int
    step: int
    #: Nothing is trained after this one.
    final: bool
    #: Directory of the files, relative to the manifest.
    directory: str
    rows: dict[str, int]
    parts: tuple[Part, ...]


class Found(msgspec.Struct, frozen=True):
    """A manifest's name and what it says."""

    url: str
    generation: int
    step: int
    final: bool

    @property
    def age(self) -> tuple[int, int, bool]:
        """Sorts from old to new."""
        return self.generation, self.step, self.final


def manifest_name(generation: int, step: int, final: bool) -> str:
    """File name of a manifest."""
    return f"manifest-g{generation:06d}-s{step:012d}{'-final' if final else ''}.json"


def find_manifests(checkpoint_url: str) -> list[Found]:
    """All manifests, oldest first; none where there is no such directory."""
    try:
        entries = storage.list_dir(checkpoint_url)
    except NotFound:
        return []
    matches = [(entry.url, _NAME.match(storage.name(entry.url))) for entry in entries]
    found = [Found(url, int(match[1]), int(match[2]), bool(match[3])) for url, match in matches if match]
    return sorted(found, key=lambda each: each.age)


def parse_name(url: str) -> Found:
    """What a manifest's name says. Raises DataError for another name."""
    match = _NAME.match(storage.name(url))
    if not match:
        raise DataError(f"{url} is not the name of a checkpoint's manifest")
    return Found(url, int(match[1]), int(match[2]), bool(match[3]))


def read_manifest(url: str) -> Manifest:
    """Raises NotFound, or DataError for one that is malformed or of a version this program does not know."""
    try:
        manifest = msgspec.json.decode(storage.read_bytes(url), type=Manifest)
    except msgspec.MsgspecError as error:
        raise DataError(f"{url}: malformed manifest: {error}") from error
    if manifest.version != FORMAT_VERSION:
        raise DataError(
            f"{url}: checkpoint of format {manifest.version}; this version of afo reads format {FORMAT_VERSION}"
        )
    return manifest


def commit(checkpoint_url: str, manifest: Manifest) -> str:
    """Make a checkpoint valid; returns the manifest's URL. If another attempt was first, its checkpoint is the one."""
    url = storage.join(checkpoint_url, manifest_name(manifest.generation, manifest.step, manifest.final))
    try:
        storage.write_bytes(url, msgspec.json.format(msgspec.json.encode(manifest), indent=1), overwrite=False)
    except AlreadyExists:
        storage.delete(storage.join(checkpoint_url, manifest.directory), recursive=True)
    return url


def remove_old(checkpoint_url: str, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints; the manifest goes first, so that none names missing files."""
    for found in find_manifests(checkpoint_url)[:-keep]:
        directory = read_manifest(found.url).directory
        storage.delete(found.url)
        storage.delete(storage.join(checkpoint_url, directory), recursive=True)


def fetch_part(manifest_url: str, manifest: Manifest, part: Part, scratch: Path) -> Path:
    """A verified local copy of one file. Raises NotFound, or DataError if size or checksum are not the manifest's."""
    url = storage.join(storage.parent(manifest_url), manifest.directory, part.file)
    local = scratch / part.file
    storage.download(url, str(local))
    size, checksum = local.stat().st_size, checksum_of(local)
    if (size, checksum) != (part.size, part.crc32c):
        raise DataError(
            f"{url}: {size} bytes with CRC-32C {checksum:08x}, where the manifest says {part.size} bytes with"
            f" {part.crc32c:08x}; the checkpoint is damaged"
        )
    return local


def checksum_of(path: Path) -> int:
    """CRC-32C of a local file."""
    checksum = google_crc32c.Checksum()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum.update(block)
    return int.from_bytes(checksum.digest())
