"""`afo demo`: the whole way on this machine, from synthetic clicks to an exported model."""

import hashlib
import math
import sys
from pathlib import Path

import click
import msgspec

from afo import __version__
from afo.data.synthetic.clicks import Answer, SynthParameters
from afo.errors import NotFound
from afo.events.types import JobFinished
from afo.formats.decoding import MOST_BYTES, UNDECODABLE
from afo.job.loader import load_job
from afo.site.config import Config, load_config
from afo.storage.regular_file import read_regular
from afo_client.cli.data import with_progress
from afo_client.cli.final_summary import conclude
from afo_client.jobs.follow import follow
from afo_client.jobs.ref import JobRef, job_ref
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.plan import plan_job
from afo_client.submission.start import start_job
from afo_client.terminal.console import print_json, say

#: Name of the file that remembers which job trained on this data, and from what.
DONE = "trained.json"


class Trained(msgspec.Struct, frozen=True):
    """What a demo directory remembers of its last successful job."""

    job_id: str
    inputs: str


def _job_file() -> str:
    """Of the checkout that the user stands in, else the one that came with the wheel."""
    here = Path("conf", "jobs", "demo.yaml")
    return str(here if here.exists() else Path(sys.prefix, "etc", "afo", "jobs", "demo.yaml"))


@click.command(
    help="Make synthetic clicks, train Wide & Deep on them with real processes, compare with the best reachable."
)
@click.option("--dir", "directory", default="afo-demo", show_default=True, help="Where the data set is kept.")
@click.option(
    "--job",
    "job_file",
    default=_job_file,
    show_default="conf/jobs/demo.yaml, here or as installed",
    type=click.Path(),
    help="The job file.",
)
@click.option(
    "--train",
    default=SynthParameters().train,
    show_default=True,
    type=click.IntRange(min=1000),
    help="Training records.",
)
@click.option("--set", "settings", multiple=True, metavar="a.b=c", help="Replace a value of the job file.")
@click.option("--again", is_flag=True, help="Train again although nothing has changed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object at the end.")
def command(directory: str, job_file: str, train: int, settings: tuple[str, ...], again: bool, as_json: bool) -> int:
    """Synthesize, submit, follow, compare; what was done before with the same inputs is not done again."""
    config = load_config("local")
    text = _read(job_file)  # before minutes are spent on data
    data = str(Path(directory, "data").absolute())
    answer = with_progress(data, SynthParameters(train=train))
    inputs = _fingerprint(text, answer, settings)
    memory = Path(directory, DONE)
    ref = None if again else _find_trained(config, memory, inputs)
    if ref is None:
        ref = _submit(config, job_file, data, settings)
    else:
        say(f"{ref.job_id} was trained on the same data with the same job file; --again trains anew")
    return _finish(config, ref, answer, memory, inputs, as_json)


def _read(job_file: str) -> bytes:
    try:
        return read_regular(job_file, MOST_BYTES)
    except OSError as error:
        raise NotFound(f"cannot read the job file {job_file}: {error.strerror}; name one with --job") from error


def _fingerprint(text: bytes, answer: Answer, settings: tuple[str, ...]) -> str:
    parts = (__version__.encode(), text, msgspec.json.encode(answer), msgspec.json.encode(settings))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _find_trained(config: Config, memory: Path, inputs: str) -> JobRef | None:
    try:
        trained = msgspec.json.decode(read_regular(memory, MOST_BYTES), type=Trained)
    except (OSError, *UNDECODABLE):
        return None  # no memory, or a foreign one: train
    ref = job_ref(config, trained.job_id)
    return ref if trained.inputs == inputs and Path(ref.paths.verdict).exists() else None


def _submit(config: Config, job_file: str, data: str, settings: tuple[str, ...]) -> JobRef:
    job = load_job(job_file, settings=settings, variables={"data": data})
    return start_job(plan_job(config, job))


def _finish(config: Config, ref: JobRef, answer: Answer, memory: Path, inputs: str, as_json: bool) -> int:
    watch = JobWatch(ref, runtime_for("local", config))
    try:
        view = follow(watch)
    finally:
        watch.close()
    code = conclude(config, ref, view, as_json=False)
    if code == 0 and view.verdict is not None:
        memory.write_bytes(msgspec.json.encode(Trained(ref.job_id, inputs)))
        say(_comparison(view.verdict, answer))
        if as_json:
            print_json(
                {
                    "job_id": ref.job_id,
                    "verdict": msgspec.to_builtins(view.verdict),
                    "best": msgspec.to_builtins(answer),
                }
            )
    return code


def _comparison(verdict: JobFinished, answer: Answer) -> str:
    reached = verdict.metrics.get("auc", math.nan)
    return (
        f"AUC reached {reached:.4f}, best reachable {answer.auc:.4f} (the teacher's own probabilities): "
        f"{answer.auc - reached:.4f} short of it; log loss {verdict.metrics.get('log_loss', math.nan):.4f}, best "
        f"{answer.log_loss:.4f}; calibration {verdict.metrics.get('calibration', math.nan):.3f}"
    )
