"""`afo checkpoint`: the checkpoints of a job, and another one at once."""

import time
from contextlib import closing

import click
import msgspec
from msgspec.structs import replace

from afo import storage
from afo.checkpoint.manifest import (
    Found,
    Manifest,
    find_manifests,
    read_evaluation,
    read_manifest,
    read_refusal,
    tables_url,
)
from afo.errors import AfoError, DataError, NotFound, PermissionDenied, UsageError, WaitTimeout
from afo.formats import json_file
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo.site.config import Config, load_config, user_name
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.ref import find_job, job_ref
from afo_client.jobs.summary import places
from afo_client.jobs.watch import JobWatch
from afo_client.models.model_ref import checkpoint_place
from afo_client.runtimes.choice import runtime_for
from afo_client.terminal.console import QUALITY_HEADS, iso, print_json, print_result, quality_cells, size_text, table

_POLL_S = 0.3


class CheckpointLine(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint; `metrics` are empty where the evaluator passed it over. `problem`: why it cannot be used."""

    manifest: str
    generation: int
    step: int
    final: bool
    #: Whether its hash tables hold only what changed since another checkpoint, and that one's step.
    delta: bool = False
    base_step: int | None = None
    #: It is older than the newest that `checkpoint.keep` asks for, and is there since a later one stands on it.
    kept_as_base: bool = False
    bytes: int
    #: Of all tables, hash tables included.
    rows: int = 0
    written: str
    #: To save it, and of that each parameter server's part.
    seconds: float | None = None
    servers: tuple[m.ServerPart, ...] = ()
    metrics: dict[str, float]
    problem: str = ""


@click.group()
def command() -> None:
    """List the checkpoints of a job, or have it write one now."""


@command.command(
    epilog=examples("afo checkpoint ls", "afo checkpoint ls application_1700000000000_0001 --json"),
)
@click.argument("job", required=False, type=JobType())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def ls(job: str | None, as_json: bool) -> None:
    """List checkpoints, oldest first: whether each holds all rows, or the changes since an earlier one, which is kept
    for them; and how long it took to save, by its slowest parameter server.

    JOB is a job or a directory; left out: the job submitted last."""
    config = load_config()
    place = checkpoint_place(config, job)
    found = [line for directory in _directories(place) for line in _list_checkpoints(config, directory)]
    if not found and not storage.exists(place):
        raise NotFound(f"{place} does not exist: nothing was saved there yet (see `checkpoint.every`)")
    refusals = [refusal for refusal in map(read_refusal, _directories(place)) if refusal is not None]
    reasons = [reason for refusal in refusals for reason in refusal.reasons]
    if as_json:
        print_json({"directory": place, "checkpoints": msgspec.to_builtins(found), "refused": reasons})
        return
    print_result(_table(found) if found else f"{place} holds no checkpoint")
    for line in found:
        if line.problem:
            print_result(f"cannot be used: {line.problem}")
    for reason in reasons:
        print_result(f"not exported, refused by the quality gate: {reason}")


@command.command(
    epilog=examples("afo checkpoint now", "afo checkpoint now application_1700000000000_0001 --timeout 600"),
)
@click.argument("job", required=False, type=JobType())
@click.option("--timeout", default=300.0, show_default=True, type=click.FloatRange(min=0), help="Seconds to wait.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def now(job: str | None, timeout: float, as_json: bool) -> None:
    """Have the chief of a running job save at its next step, and print the manifest once it is there."""
    config = load_config()
    ref = find_job(config, job)
    place = places(ref)["checkpoints"]
    before = {manifest.url for manifest in find_manifests(place)}
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch:
        url = _save_now(watch, place, before, time.monotonic() + timeout)
    if as_json:
        print_json({"application_id": ref.job_id, "manifest": url})
    else:
        print_result(url)


def _save_now(watch: JobWatch, place: str, before: set[str], deadline: float) -> str:
    """Give the order and wait for a manifest that was not there before."""
    job_id = watch.ref.job_id
    if watch.look().ended:
        raise UsageError(f"{job_id} has ended; `afo checkpoint ls {job_id}` shows what it saved")
    if watch.master is None:
        raise PermissionDenied(f"only who submitted {job_id}, and from the same machine, gives orders to it")
    order = watch.master.give_order(m.OrderRequest(user=user_name(), kind="checkpoint"))
    while True:
        new = [manifest.url for manifest in find_manifests(place) if manifest.url not in before]
        if new:
            return new[-1]
        reply = watch.master.order_status(order)
        if reply.state == "failed":
            raise NotFound(f"{job_id} does not save now: {reply.output}")
        if time.monotonic() > deadline:
            raise WaitTimeout(f"{job_id} has not saved in the time given; it does so at its next step")
        time.sleep(_POLL_S)


def _directories(place: str) -> list[str]:
    """A directory of checkpoints, and those in it: of a day's jobs, each has its own."""
    try:
        return [place, *sorted(entry.url for entry in storage.list_dir(place) if entry.is_dir)]
    except NotFound:
        return []


def _list_checkpoints(config: Config, directory: str) -> list[CheckpointLine]:
    """Those of one directory, oldest first, each with what it stands on."""
    described = [_describe_checkpoint(found) for found in find_manifests(directory)]
    steps = {manifest.directory: manifest.step for _, manifest in described if manifest}
    bases = {manifest.base for _, manifest in described if manifest}
    newest = next((manifest for _, manifest in reversed(described) if manifest), None)
    keep = None if newest is None else _keep(config, newest)
    surplus = 0 if keep is None else max(0, len(described) - keep)
    return [
        line if manifest is None else replace(
            line, delta=manifest.base is not None, base_step=steps.get(manifest.base or ""),
            kept_as_base=place < surplus and manifest.directory in bases,
        )
        for place, (line, manifest) in enumerate(described)
    ]  # fmt: skip


def _keep(config: Config, manifest: Manifest) -> int | None:
    """`checkpoint.keep` of the job that wrote it; None where the job is gone."""
    if manifest.lineage is None:
        return None
    try:
        job = json_file.fetch(job_ref(config, manifest.lineage.own.job_id).paths.job, AmConfig).job
    except AfoError:
        return None
    return job.checkpoint.keep


def _describe_checkpoint(found: Found) -> tuple[CheckpointLine, Manifest | None]:
    """And its manifest, where that can be read."""
    line = CheckpointLine(
        manifest=found.url, generation=found.generation, step=found.step, final=found.final, bytes=0,
        written=iso(storage.info(found.url).modified) or "", metrics={},
    )  # fmt: skip
    try:
        manifest, evaluation = read_manifest(found.url), read_evaluation(found.url)
    except DataError as error:
        return replace(line, problem=str(error)), None
    size = sum(part.size for part in manifest.parts) + _size_of_tables(found.url, manifest)
    metrics = evaluation.metrics if evaluation else {}
    line = replace(
        line, bytes=size, rows=sum(manifest.rows.values()), metrics=metrics, problem=_missing(found.url, manifest),
        seconds=manifest.seconds, servers=manifest.servers,
    )  # fmt: skip
    return line, manifest


def _missing(url: str, manifest: Manifest) -> str:
    """What is not there as the manifest has it, by names and sizes alone: a checkpoint may be large."""
    directory = storage.join(storage.parent(url), manifest.directory)
    wanted = {part.file: part.size for part in manifest.parts}
    try:
        sizes = {storage.name(file.url): file.size for file in storage.list_dir(directory)}
    except NotFound:
        sizes = {}
    for name, size in wanted.items():
        if sizes.get(name) != size:
            there = f"has {sizes[name]:,} bytes and had {size:,}" if name in sizes else "is gone"
            return f"{storage.join(directory, name)} {there}"
    return ""


def _size_of_tables(url: str, manifest: Manifest) -> int:
    """Bytes of the hash tables' files that were written with this checkpoint."""
    file = tables_url(url, manifest)
    if file is None:
        return 0
    try:
        return sum(entry.size for entry in storage.list_dir(storage.parent(file)) if not entry.is_dir)
    except NotFound:
        return 0  # deleted while it was looked at


def _table(found: list[CheckpointLine]) -> str:
    titles = (
        "STEP", "GENERATION", "FINAL", "HOLDS", "SIZE", "ROWS", "WRITTEN", "TOOK", "SLOWEST SERVER", *QUALITY_HEADS,
        "MANIFEST",
    )  # fmt: skip
    return table(titles, [_row(line) for line in found])


def _row(line: CheckpointLine) -> tuple[str, ...]:
    final, size = "yes" if line.final else "", size_text(line.bytes)
    took = "" if line.seconds is None else f"{line.seconds:.1f} s"
    slowest = max(line.servers, key=lambda part: part.seconds, default=None)
    server = "" if slowest is None else f"ps:{slowest.server} {slowest.seconds:.1f} s"
    return (
        f"{line.step:,}", str(line.generation), final, _holds(line), size, f"{line.rows:,}", line.written, took, server,
        *quality_cells(line.metrics), line.manifest,
    )  # fmt: skip


def _holds(line: CheckpointLine) -> str:
    """All rows of the hash tables, or those that changed since an earlier checkpoint."""
    base = "" if line.base_step is None else f" of {line.base_step:,}"
    words = f"changes{base}" if line.delta else "all"
    return f"{words}, kept as base" if line.kept_as_base else words
