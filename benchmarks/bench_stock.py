"""Whole jobs, from their start to a SavedModel, against what a user would write with TensorFlow alone.

Three sides train Wide & Deep on the same synthetic clicks with two parameter servers and two workers that do not wait
for each other, all on this machine: `afo submit` of `stock/afo.yaml` (hash tables), `stock/coordinator.py`
(ParameterServerStrategy with a ClusterCoordinator) and `stock/between_graph.py` (a MonitoredTrainingSession a worker).
Features, widths, layers, precision, batches, optimizers and their rates are the same; tables of TensorFlow alone have
`--buckets` rows a feature, into which ids of these data go one to one, as into hash tables. By AdaGrad, and by Adam: of
afo the lazy one, of the others TensorFlow's, which decays the moments of all rows at every step, and a lazy one.

One program evaluates all exports on the same held-out files. Processor time and memory are of all processes of a job.
Jobs with the same seed take turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench_quality import MARGIN, interval
from report import MISSED, RESULTS, publish, result
from size import sized

HERE = Path(__file__).parent
SERVERS = WORKERS = 2
PROGRAMS = ("coordinator", "between_graph")
#: By optimizer of the programs: that of afo's job.
OPTIMIZERS = {"adagrad": "adagrad", "adam": "adam", "lazy_adam": "adam"}
JOB_S = 1800
#: Of a ratio that says that afo is not the worse one.
AT_LEAST = 1.0
METRICS = ("auc", "log_loss", "calibration")


class Job(NamedTuple):
    """What is run."""

    side: str
    optimizer: str


class Run(NamedTuple):
    """What came of it; `rate` is samples a second of training alone, from the first step of a worker to the last."""

    seconds: float
    rate: float
    cpu_s: float
    peak_bytes: int


def jobs(optimizers: list[str]) -> list[Job]:
    """Each once."""
    ours = dict.fromkeys(Job("afo", OPTIMIZERS[each]) for each in optimizers)
    return [*ours, *(Job(program, each) for each in optimizers for program in PROGRAMS)]


def clicks(given: argparse.Namespace) -> Path:
    """The data, made once for each number of records."""
    folder = RESULTS / f"clicks-{given.train}"
    command = ["data", "synth", str(folder), "--train", str(given.train), "--eval", str(given.evaluated)]
    subprocess.run([sys.executable, "-m", "afo_client", *command], check=True, stdout=subprocess.DEVNULL)
    return folder


def of_afo(job: Job, data: Path, folder: Path, seed: int, given: argparse.Namespace) -> list[str]:
    """The command of our job."""
    settings = {
        "optimizer": json.dumps({"wide": {job.optimizer: {}}, "deep": {job.optimizer: {}}}),
        "data.shuffle.seed": seed, "data.epochs": given.epochs, "data.batch_size": given.batch_size,
        "model.embedding.dim": given.dim, "model.precision": given.precision,
        "model.hidden_units": json.dumps(given.hidden), "export.dir": folder / "export",
    }  # fmt: skip
    command = [sys.executable, "-m", "afo_client", "submit", str(HERE / "stock" / "afo.yaml"), "--runtime", "local"]
    command += ["--json", "--var", f"data={data.resolve()}"]
    return command + [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def of_stock(job: Job, data: Path, folder: Path, seed: int, given: argparse.Namespace) -> list[str]:
    """The command of a program of TensorFlow alone."""
    options = {
        "train": f"{data}/train/*.tfrecord", "model-dir": folder / "model", "export": folder / "export",
        "optimizer": job.optimizer, "precision": given.precision, "dim": given.dim, "buckets": given.buckets,
        "batch-size": given.batch_size, "epochs": given.epochs, "seed": seed,
    }  # fmt: skip
    command = [sys.executable, str(HERE / "stock" / "start.py"), job.side, str(folder), str(SERVERS), str(WORKERS)]
    command += [word for key, value in options.items() for word in (f"--{key}", str(value))]
    return [*command, "--hidden", *map(str, given.hidden)]


def ran(job: Job, data: Path, folder: Path, seed: int, given: argparse.Namespace) -> Run:
    """Run a job that exports to `folder`/export. Raises SystemExit with what its processes wrote if it fails."""
    (folder / "model").mkdir(parents=True)
    command = (of_afo if job.side == "afo" else of_stock)(job, data, folder, seed, given)
    command = [sys.executable, str(HERE / "measured.py"), str(JOB_S), *command]
    homes = {"AFO_STATE_DIR": str(folder / "state"), "AFO_JOBS_ROOT": str(folder / "jobs")}
    with open(folder / "log", "w") as log:
        done = subprocess.run(command, env=os.environ | homes, stdout=subprocess.PIPE, stderr=log, text=True)
    logs = [folder / "log", *sorted(folder.glob("*-[0-9]"))]
    if done.returncode:
        ends = [f"{each.name}:\n{each.read_text(errors='replace')[-3000:]}" for each in logs]
        raise SystemExit("\n".join([" ".join(command), *ends]))
    took = json.loads(done.stdout)
    told = [entry for each in logs for entry in entries(each)]
    return Run(took["seconds"], rate_of(told), took["cpu_s"], took["peak_bytes"])


def entries(log: Path) -> list[dict[str, Any]]:
    """What a process of a job said about its training: lines of JSON."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("{")]
    return [entry for line in lines if "train_seconds" in (entry := json.loads(line))]


def rate_of(told: list[dict[str, Any]]) -> float:
    """Samples a second; all workers' samples in the time of the one that took longest."""
    return sum(each["samples"] for each in told) / max(each["train_seconds"] for each in told)


def evaluated(folders: dict[Job, Path], data: Path) -> dict[Job, dict[str, float]]:
    """AUC, log loss and calibration of each job's export."""
    models = [str(folder / "export") for folder in folders.values()]
    command = [sys.executable, str(HERE / "stock" / "evaluate.py"), "click", f"{data}/eval/*.tfrecord", *models]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(folders, map(json.loads, done.stdout.splitlines()), strict=True))


def line(job: Job, seed: int, run: Run, metrics: dict[str, float], samples: int) -> str:
    """A job in words."""
    words = [f"{name} {metrics[name]:.5f}" for name in METRICS]
    return (
        f"seed {seed}, {job.side}, {job.optimizer}: {run.seconds:.1f} s in all, {run.rate:,.0f} samples/s of training, "
        f"{run.cpu_s / samples * 1e6:.1f} µs a sample, {run.peak_bytes / 1e6:,.0f} MB, {', '.join(words)}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def series(given: argparse.Namespace) -> tuple[dict[Job, list[Run]], dict[Job, list[dict[str, float]]]]:
    """(what each job took, its metrics), seed by seed."""
    data, samples = clicks(given), given.train * given.epochs
    every = jobs(given.optimizer)
    runs: dict[Job, list[Run]] = {job: [] for job in every}
    metrics: dict[Job, list[dict[str, float]]] = {job: [] for job in every}
    for seed in range(1, given.seeds + 1):
        turn = seed % len(every)
        with tempfile.TemporaryDirectory(prefix="afo-stock-") as scratch:
            folders = {job: Path(scratch) / job.side / job.optimizer for job in every}
            for job in [*every[turn:], *every[:turn]]:
                runs[job].append(ran(job, data, folders[job], seed, given))
            for job, found in evaluated(folders, data).items():
                metrics[job].append(found)
                print(line(job, seed, runs[job][-1], found, samples), flush=True)
    return runs, metrics


def claims(
    optimizer: str, runs: dict[Job, list[Run]], metrics: dict[Job, list[dict[str, float]]], samples: int
) -> list[dict[str, object]]:
    """Of one optimizer, against each program."""
    found = []
    ours = Job("afo", OPTIMIZERS[optimizer])
    for program in PROGRAMS:
        theirs, name = Job(program, optimizer), f"{optimizer}, against {program}"

        def median(job: Job, value: Callable[[Run], float]) -> float:
            return statistics.median(value(run) for run in runs[job])

        for what, unit, value, less in (
            ("whole job", "samples/s", lambda run: samples / run.seconds, False),
            ("training alone", "samples/s", lambda run: run.rate, False),
            ("processor a sample", "µs", lambda run: run.cpu_s / samples * 1e6, True),
            ("peak of memory", "MB", lambda run: run.peak_bytes / 1e6, True),
        ):
            values = median(ours, value), median(theirs, value)
            found.append(result(f"{name}: {what}", *values, unit, AT_LEAST, lower_is_better=less))
        found += quality(name, metrics[ours], metrics[theirs])
    return found


def quality(name: str, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> list[dict[str, object]]:
    """Differences, pair by pair, and the claim that our AUC is not lower by more than MARGIN.

    By the median, for asynchronous Adam of whole tables diverges now and then, which is no merit of ours.
    """
    for metric in METRICS:
        differences = [one[metric] - other[metric] for one, other in zip(ours, theirs, strict=True)]
        words = f"{name}: {metric}, ours less theirs {statistics.median(differences):+.5f} (median)"
        if len(differences) > 1:
            mean, low, high = interval(differences)
            words += f", mean {mean:+.5f}, 95 % interval {low:+.5f} to {high:+.5f}, {len(differences)} seeds"
        print(words)
    short = statistics.median(other["auc"] - one["auc"] for one, other in zip(ours, theirs, strict=True))
    claim = f"{name}: AUC short by"
    return [result(claim, max(short, MARGIN / 100), MARGIN, "AUC", AT_LEAST, lower_is_better=True)]


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=sized(3, 1))
    parser.add_argument("--train", type=int, default=sized(1_000_000, 20_000), help="training records")
    parser.add_argument("--evaluated", type=int, default=sized(200_000, 5000), help="held-out records")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--dim", type=int, default=sized(16, 4), help="width of the embeddings")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 128, 64])
    parser.add_argument("--buckets", type=int, default=100_000, help="rows a feature of TensorFlow's tables")
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16", help="of the layers")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, action="append", help="all of them unless given")
    given = parser.parse_args()
    given.optimizer = given.optimizer or sized([*OPTIMIZERS], ["adagrad"])
    return given


def main() -> int:
    """0 if the claims hold."""
    given = arguments()
    runs, metrics = series(given)
    samples = given.train * given.epochs
    found = [claim for each in given.optimizer for claim in claims(each, runs, metrics, samples)]
    return 0 if publish("stock", found) else MISSED


if __name__ == "__main__":
    sys.exit(main())
