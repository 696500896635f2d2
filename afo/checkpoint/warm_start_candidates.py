"""Candidates for a warm start: the checkpoints it may begin with. No TensorFlow here."""

from collections.abc import Iterable
from typing import NamedTuple

from afo import storage
from afo.checkpoint.manifest import Found, find_manifests, parse_name, read_refusal
from afo.errors import AfoError, DataError, NotFound
from afo.job import WarmStart
from afo.job.paths import is_job_id


class Candidates(NamedTuple):
    """Manifests of one source, the best first, and what was passed over and why."""

    manifests: tuple[str, ...]
    passed_over: tuple[str, ...]


def candidates(source: str, own_url: str = "") -> Candidates:
    """The manifests that a source of `checkpoint.warm_start` stands for: itself, or those in a directory.

    The directory holds manifests, or directories of jobs that do (as `checkpoint.dir` does). Final ones come first, for
    they hold all of their job's data; of those the last written. `own_url` is left out: a job's own checkpoints are no
    warm start. So are the checkpoints of a job whose model the quality gate refused, unless named themselves.
    """
    if storage.name(source).endswith(".json"):
        parse_name(source)
        return Candidates((source,), ()) if storage.exists(source) else Candidates((), (f"{source} does not exist",))
    found: list[tuple[bool, float, tuple[int, int, bool], str]] = []
    passed_over: list[str] = []
    directories = _directories(source, own_url)
    for directory in directories or ():
        refusal = read_refusal(directory)
        manifests = find_manifests(directory)
        if refusal is not None and manifests:
            passed_over.append(f"{directory}: the quality gate refused it: {'; '.join(refusal.reasons)}")
        else:
            found += [_rank(manifest) for manifest in manifests]
    if not found and not passed_over:
        passed_over.append(_nothing_at(source) if directories is None else f"{source} holds no checkpoint")
    return Candidates(tuple(ranked[-1] for ranked in sorted(found, reverse=True)), tuple(passed_over))


def newest(source: str) -> str:
    """The manifest that a directory or a manifest stands for. Raises NotFound, saying why there is none."""
    manifests, passed_over = candidates(source)
    if not manifests:
        raise NotFound("; ".join(passed_over))
    return manifests[0]


def first_of(warm: WarmStart) -> str:
    """The manifest that a job would begin with now, '' if it would begin anew. Raises NotFound, saying why."""
    passed_over: list[str] = []
    for source in warm.sources:
        found = candidates(source)
        if found.manifests:
            return found.manifests[0]
        passed_over += found.passed_over
    if warm.missing == "fail":
        raise nothing_found(passed_over)
    return ""


def nothing_found(passed_over: Iterable[str]) -> NotFound:
    """The error of a job that may not begin anew."""
    return NotFound(
        f"$.checkpoint.warm_start: there is no checkpoint to begin with: {'; '.join(passed_over)}; name another source,"
        " or write `missing: fresh` if the model may begin anew"
    )


def _nothing_at(source: str) -> str:
    """Of a path that is not there, which may be a job's id in place of one."""
    hint = "; of a job name the directory of its checkpoints, e.g. `JOB_DIR/checkpoints`"
    return f"{source} does not exist{hint if is_job_id(storage.name(source)) else ''}"


def _directories(source: str, own_url: str) -> list[str] | None:
    """The source and those in it; None where there is none."""
    try:
        inside = [entry.url for entry in storage.list_dir(source) if entry.is_dir]
    except NotFound:
        return None
    except AfoError as error:
        raise DataError(f"{source} is neither a directory nor a checkpoint's manifest: {error}") from error
    own = own_url.rstrip("/")
    return [directory for directory in (source.rstrip("/"), *inside) if directory.rstrip("/") != own]


def _rank(found: Found) -> tuple[bool, float, tuple[int, int, bool], str]:
    return found.final, storage.info(found.url).modified, found.age, found.url
