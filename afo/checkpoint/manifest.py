"""The manifest that makes a set of files a checkpoint. No TensorFlow here.

    <checkpoint url>/g000001-<random>/<tensor>.<part>.npy   a directory for each try
    <checkpoint url>/g000001-<random>/tables/               hash tables, where the model has them
    <checkpoint url>/manifest-g000001-s000000001234[-final].json          written last, and only once
    <checkpoint url>/evaluation-g000001-s000000001234[-final].json        what the evaluator found of it
    <checkpoint url>/refused.json                                         the quality gate refused this job's model

Readers take the manifest of the highest generation and step; a directory without one is not a checkpoint. A manifest
names what lies in a directory of its own generation alone, and is refused, before anything is read or deleted, if not.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeVar

import google_crc32c
import msgspec

from afo import storage
from afo.checkpoint.tensor_map import Section
from afo.errors import AlreadyExists, DataError, NotFound
from afo.formats import decoding, manifest_file
from afo.formats.manifest_file import Formats
from afo.job.paths import check_name
from afo.job_dir.lineage import Evaluation, Lineage
from afo.rpc.messages import ServerPart

#: Raised when a reader of an older version could not read what this one writes. 1 says neither what is in the model nor
#: which part is which, 2 has no hash tables, 3 no checksum of itself.
FORMAT_VERSION = 4
_FORMATS = Formats("checkpoint", newest=FORMAT_VERSION, sealed=4)
#: Directory of the hash tables (`afo.tables.saved_tables`) in that of the other files.
TABLES = "tables"
REFUSAL = "refused.json"
_NAME = re.compile(r"^manifest-g(\d{6,})-s(\d{12,})(-final)?\.json$")
_DIRECTORY = re.compile(r"g(\d{6,})-[A-Za-z0-9-]+")
#: Of the hash tables' own manifest in the directory.
_TABLES_FILE = re.compile(rf"{TABLES}/\w+\.json")
_BLOCK = 1 << 20
_T = TypeVar("_T")


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: every `parts`-th row of a tensor, from row `part` on. A whole tensor is part 0 of 1."""

    tensor: str
    file: str
    part: int
    parts: int
    size: int
    crc32c: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All of one checkpoint. `rows` says how many rows each table has altogether, of a hash table about; `rules`,
    `sections` and `lineage` since format 2."""

    version: int
    generation: int
    step: int
    #: Nothing is trained after this one.
    final: bool
    #: Directory of the files, relative to the manifest.
    directory: str
    rows: dict[str, int]
    parts: tuple[Part, ...]
    #: Optimizer of each parameter, by the name that the job file has for it.
    rules: dict[str, str] = {}
    #: Which part of the model is which range of which tensor.
    sections: tuple[Section, ...] = ()
    lineage: Lineage | None = None
    #: File of the hash tables, relative to the directory; since format 3.
    tables: str | None = None
    #: When (seconds since 1970) which step was, old to new (`afo.state.step_clock`).
    clock: tuple[tuple[float, int], ...] = ()
    #: Directory of the checkpoint before, where the hash tables are only what changed since.
    base: str | None = None
    #: What it took until this was written, and of that server by server; left out before it was measured.
    seconds: float | None = None
    servers: tuple[ServerPart, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """Why the model of a job was not exported."""

    manifest: str
    reasons: tuple[str, ...]


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
    return _manifests(_urls(checkpoint_url))


def _urls(checkpoint_url: str) -> list[str]:
    try:
        return [entry.url for entry in storage.list_dir(checkpoint_url)]
    except NotFound:
        return []


def _manifests(urls: list[str]) -> list[Found]:
    matches = [(url, _NAME.match(storage.name(url))) for url in urls]
    found = [Found(url, int(match[1]), int(match[2]), bool(match[3])) for url, match in matches if match]
    return sorted(found, key=lambda manifest: manifest.age)


def parse_name(url: str) -> Found:
    """What a manifest's name says. Raises DataError for another name."""
    match = _NAME.match(storage.name(url))
    if not match:
        raise DataError(f"{url} is not the name of a checkpoint's manifest")
    return Found(url, int(match[1]), int(match[2]), bool(match[3]))


def read_manifest(url: str) -> Manifest:
    """Raises NotFound, or DataError for one that is damaged, malformed, of a format this program does not know, or that
    names what is not its own."""
    manifest = manifest_file.read(url, Manifest, _FORMATS)
    _check_names(url, manifest)
    _check_parts(url, manifest.parts)
    return manifest


def _check_names(url: str, manifest: Manifest) -> None:
    """Everything that is later joined to a path, opened or deleted."""
    named = parse_name(url)
    if named.age != (manifest.generation, manifest.step, manifest.final):
        raise manifest_file.damage_error(url, f"it says generation {manifest.generation}, step {manifest.step}")
    for directory in (manifest.directory, manifest.base):
        match = None if directory is None else _DIRECTORY.fullmatch(directory)
        if directory is not None and (match is None or int(match[1]) != named.generation):
            raise manifest_file.damage_error(url, f"{directory!r} is no directory of generation {named.generation}")
    if manifest.tables is not None and not _TABLES_FILE.fullmatch(manifest.tables):
        raise manifest_file.damage_error(url, f"{manifest.tables!r} is no manifest of hash tables")
    for part in manifest.parts:
        check_name(part.file, url)


def _check_parts(url: str, parts: tuple[Part, ...]) -> None:
    """Each tensor is there to its last row."""
    found: dict[str, list[tuple[int, int]]] = {}
    for part in parts:
        found.setdefault(part.tensor, []).append((part.part, part.parts))
    for tensor, places in found.items():
        if sorted(places) != [(number, len(places)) for number in range(len(places))]:
            raise manifest_file.damage_error(url, f"of `{tensor}` it has not each part once")


def commit(checkpoint_url: str, manifest: Manifest) -> tuple[str, bool]:
    """Make a checkpoint valid; returns the manifest's URL, and whether it is this one's.

    If another attempt was first, its checkpoint is the one, and the files of this one are deleted.
    """
    url = storage.join(checkpoint_url, manifest_name(manifest.generation, manifest.step, manifest.final))
    try:
        storage.write_bytes(url, manifest_file.encode(manifest), overwrite=False)
    except AlreadyExists:
        storage.delete(storage.join(checkpoint_url, manifest.directory), recursive=True)
        return url, False
    return url, True


def require_files(checkpoint_url: str, directory: str, names: Collection[str]) -> None:
    """Raises NotFound unless all lie there still: who takes a writer for dead removes what it began."""
    url = storage.join(checkpoint_url, directory)
    if missing := sorted(set(names) - {storage.name(entry.url) for entry in storage.list_dir(url)}):
        raise NotFound(f"{url}: {missing[0]} has been removed since it was saved; this is no checkpoint")


def remove_old(checkpoint_url: str, keep: int, protected: Collection[str] = ()) -> list[str]:
    """Delete all but the newest `keep` checkpoints, those whose manifests are `protected`, and what both stand on.

    The manifest goes first, so that none names missing files. What an earlier generation began and did not come to the
    end of goes as well. Returns what is wrong with manifests that cannot be read, or have another's directory: they
    stay, and with them what an earlier generation left, since its files might be theirs. Nothing is deleted where one
    that is left stands on such a one, which alone says what is below it.
    """
    urls = _urls(checkpoint_url)
    legible, problems = _legible(_manifests(urls))
    left = [manifest for found, manifest in legible if found.url in protected]
    left += [manifest for _, manifest in legible[-keep:]]
    named = _with_bases(left, {manifest.directory: manifest for _, manifest in legible})
    if named is None:
        return problems
    for found, manifest in legible:
        if manifest.directory not in named:
            storage.delete(found.url)
            storage.delete(_evaluation_url(found.url))
            storage.delete(storage.join(checkpoint_url, manifest.directory), recursive=True)
    if legible and not problems:
        # A try of the newest generation may still be under way.
        _remove_unnamed(_tries(urls, legible[-1][0].generation - 1), named)
    return problems


def remove_unfinished(checkpoint_url: str, generation: int) -> list[str]:
    """Delete what tries of this generation and earlier ones left, for their one writer, before its first, or for nobody
    after its last; returns the directories.

    Nothing goes where a manifest cannot be read, as in `remove_old`.
    """
    urls = _urls(checkpoint_url)
    tries = _tries(urls, generation)
    if not tries:
        return []
    legible, problems = _legible(_manifests(urls))
    return [] if problems else _remove_unnamed(tries, {manifest.directory for _, manifest in legible})


def _legible(manifests: list[Found]) -> tuple[list[tuple[Found, Manifest]], list[str]]:
    """Those that can be read, and what is wrong with the others."""
    legible, problems = list[tuple[Found, Manifest]](), list[str]()
    for found in manifests:
        try:
            legible.append((found, read_manifest(found.url)))
        except DataError as error:
            problems.append(str(error))
    named = Counter(manifest.directory for _, manifest in legible)
    shared = [(found, manifest) for found, manifest in legible if named[manifest.directory] > 1]
    problems += [
        f"{found.url}: another checkpoint has its directory, {manifest.directory}, too" for found, manifest in shared
    ]
    return [pair for pair in legible if pair not in shared], problems


def _with_bases(left: list[Manifest], by_directory: Mapping[str, Manifest]) -> set[str] | None:
    """Directories of these checkpoints and of all that they stand on; None where that is not known to the end."""
    named: set[str] = set()
    for manifest in left:
        following = manifest
        while following.directory not in named:
            named.add(following.directory)
            if following.base is None:
                break
            if following.base not in by_directory:
                return None
            following = by_directory[following.base]
    return named


def _tries(urls: list[str], newest: int) -> list[str]:
    """The directories of checkpoints, whole or not, of generations up to the `newest`."""
    return [url for url in urls if (match := _DIRECTORY.fullmatch(storage.name(url))) and int(match[1]) <= newest]


def _remove_unnamed(tries: list[str], named: Collection[str]) -> list[str]:
    removed = [url for url in tries if storage.name(url) not in named]
    for url in removed:
        storage.delete(url, recursive=True)
    return removed


def write_evaluation(manifest_url: str, evaluation: Evaluation) -> None:
    """Put what the evaluator found beside the manifest."""
    storage.write_bytes(_evaluation_url(manifest_url), msgspec.json.encode(evaluation))


def read_evaluation(manifest_url: str) -> Evaluation | None:
    """What the evaluator found of a checkpoint; None if it was not measured. Raises DataError."""
    return _read_beside(_evaluation_url(manifest_url), Evaluation)


def write_refusal(checkpoint_url: str, refusal: Refusal) -> None:
    """Mark all checkpoints of a job: no warm start takes one by its directory."""
    storage.write_bytes(storage.join(checkpoint_url, REFUSAL), msgspec.json.encode(refusal))


def read_refusal(checkpoint_url: str) -> Refusal | None:
    """Why the model of this directory was refused; None if it was not. Raises DataError."""
    return _read_beside(storage.join(checkpoint_url, REFUSAL), Refusal)


def _evaluation_url(manifest_url: str) -> str:
    name = storage.name(manifest_url).replace("manifest-", "evaluation-", 1)
    return storage.join(storage.parent(manifest_url), name)


def _read_beside(url: str, kind: type[_T]) -> _T | None:
    try:
        return decoding.read(url, kind)
    except NotFound:
        return None


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


def tables_url(manifest_url: str, manifest: Manifest) -> str | None:
    """Where the manifest of the hash tables is; None for a model without."""
    if manifest.tables is None:
        return None
    return storage.join(storage.parent(manifest_url), manifest.directory, *manifest.tables.split("/"))


def checksum_of(path: Path) -> int:
    """CRC-32C of a local file."""
    checksum = google_crc32c.Checksum()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum.update(block)
    return int.from_bytes(checksum.digest())
