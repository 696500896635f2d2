"""What the mean of a job's last checkpoints is worth beside its last one, with the falling rate and without: AUC, log
loss and calibration of one model each.

Jobs of conf/jobs with dense tables save as often as they are told to, and keep it all. Of each, the last checkpoint is
measured by `afo evaluate`, and checkpoints made of the mean of all weights over the last ones that lie within a share
of the job's steps (Polyak and Juditsky 1992, doi:10.1137/0330046; of rows, too). Data sets as in `bench_cooldown.py`.

The claim: with the falling rate, which is the default, the mean over the last fifth is better by less than 0.0002, in
AUC and in log loss; so a job exports what it trained last, or what was measured as best.
"""

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec import structs
from quality_jobs import (
    JOBS,
    Metrics,
    afo,
    arguments,
    convert_adult,
    has_adult,
    make_clicks,
    metrics_of,
    of_seeds,
    summary,
)
from report import MISSED, publish, result
from size import sized

from afo.checkpoint import manifest
from afo.checkpoint.manifest import Found, Manifest, Part

#: Shares of the job's steps over which the mean goes; 0 is the last checkpoint as it is.
SHARES = (0.0, 0.1, 0.2, 0.4)
JUDGED = 0.2
#: The default.
COOLDOWN = 0.2
#: Less than this is no difference.
MARGIN = 0.0002
#: Job file, and `checkpoint.every` by which a job comes to about a dozen of them.
JOB_FILES = {"adult": ("adult-yarn.yaml", "1s"), "clicks": ("demo.yaml", "2s")}
#: Directory of a mean; of the job's generation.
MEAN = "g{:06d}-mean{}"


def trained(scratch: Path, name: str, data: Path, settings: list[str], seed: int) -> Path:
    """Directory of the checkpoints of a job."""
    job, every = JOB_FILES[name]
    models = Path(tempfile.mkdtemp(dir=scratch))
    given = [f"checkpoint.dir={models}", f"checkpoint.every={every}", "checkpoint.keep=1000", *settings]
    given += ["model.embedding.storage=dense", f"data.shuffle.seed={seed}", "export.require={}"]
    words = [word for each in given for word in ("--set", each)]
    afo(scratch, "submit", str(JOBS / job), "--runtime", "local", "--var", f"data={data}", *words)
    [job_models] = models.iterdir()
    return job_models


def measured(scratch: Path, manifest_url: Path, data: Path) -> Metrics:
    """What the evaluation files say of a checkpoint."""
    globs = [str(each / "*.tfrecord") for each in (data / "eval", data / "test") if each.is_dir()]
    return metrics_of(afo(scratch, "evaluate", str(manifest_url), "--data", *globs, "--json"))


def mean_of(models: Path, share: float) -> tuple[Path, int]:
    """Manifest of the mean of the checkpoints of the last `share` of the steps, and how many they are."""
    found = manifest.find_manifests(str(models))
    last = found[-1]
    taken = [each for each in found if each.step > (1 - share) * last.step] or [last]
    if len(taken) == 1:
        return Path(last.url), 1
    return averaged(models, taken, share), len(taken)


def averaged(models: Path, taken: list[Found], share: float) -> Path:
    """A checkpoint below the others, all of whose arrays are means."""
    read = [manifest.read_manifest(each.url) for each in taken]
    newest, means = read[-1], models / "means"
    percent = round(share * 100)
    directory = MEAN.format(newest.generation, percent)
    (means / directory).mkdir(parents=True)
    parts = tuple(mean_part(models, read, part, means / directory / part.file) for part in newest.parts)
    # A step of its own, as no two manifests have one name.
    mean = structs.replace(newest, step=newest.step + 1 + percent, directory=directory, parts=parts)
    made, _ = manifest.commit(str(means), mean)
    return Path(made)


def mean_part(models: Path, read: list[Manifest], part: Part, target: Path) -> Part:
    """The mean of a file over the checkpoints; of whole numbers the last one's."""
    arrays = [np.load(models / each.directory / part.file, allow_pickle=False) for each in read]
    value = np.mean(arrays, axis=0, dtype=np.float64).astype(np.float32) if arrays[0].dtype.kind == "f" else arrays[-1]
    np.save(target, value, allow_pickle=False)
    return structs.replace(part, size=target.stat().st_size, crc32c=manifest.checksum_of(target))


def of_seed(scratch: Path, name: str, data: Path, seed: int) -> dict[tuple[float, float], Metrics]:
    """Metrics by the cooldown of the job and the share that the mean goes over."""
    found: dict[tuple[float, float], Metrics] = {}
    for cooldown in (COOLDOWN, 0.0) if seed % 2 else (0.0, COOLDOWN):
        models = trained(scratch, name, data, [f"optimizer.schedule.cooldown={cooldown}"], seed)
        for share in SHARES:
            url, count = mean_of(models, share)
            found[cooldown, share] = measured(scratch, url, data)
            print(f"{name}, seed {seed}, cooldown {cooldown:g}, {count} checkpoints of {share:g}", flush=True)
        shutil.rmtree(models.parent)
    return found


def paired(scratch: Path, name: str, data: Path, seeds: int, at_once: int) -> dict[tuple[float, float], list[Metrics]]:
    """Metrics of each seed by cooldown and share. So many seeds `at_once`."""
    each = of_seeds(lambda seed: of_seed(scratch, name, data, seed), seeds, at_once)
    found = {key: [metrics[key] for metrics in each] for key in each[0]}
    for (cooldown, share), metrics in sorted(found.items()):
        print(f"{name}, cooldown {cooldown:g}, mean over {share:g}, {summary(metrics)}", flush=True)
    return found


def claims(name: str, found: dict[tuple[float, float], list[Metrics]]) -> list[dict[str, object]]:
    """That the default's log loss is no higher than with a mean, and that of AUC."""
    last, mean = found[COOLDOWN, 0.0], found[COOLDOWN, JUDGED]
    auc = [statistics.mean(each["auc"] for each in side) for side in (last, mean)]
    loss = [statistics.mean(each["log_loss"] for each in side) for side in (last, mean)]
    return [
        result(f"{name}: AUC of the last checkpoint", auc[0], auc[1] - MARGIN, "AUC", 1.0, lower_is_better=False),
        result(f"{name}: its log loss", loss[0], loss[1] + MARGIN, "log loss", 1.0, lower_is_better=True),
    ]


def main() -> int:
    """0 if the claims hold."""
    parser = arguments(__doc__)
    parser.add_argument("--what", choices=[*JOB_FILES], action="append")
    parser.add_argument("--at-once", type=int, default=1, help="seeds, where there are cores for them")
    given = parser.parse_args()
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="afo-averaging-") as folder:
        scratch = Path(folder)
        makers: dict[str, Callable[[], Path]] = {
            "adult": lambda: convert_adult(scratch, given.adult),
            "clicks": lambda: make_clicks(scratch, sized(1_500_000, 2000)),
        }
        if not given.what and not has_adult(given.adult):
            del makers["adult"]
        for name in given.what or sized([*makers], ["clicks"]):
            results += claims(name, paired(scratch, name, makers[name](), given.seeds, given.at_once))
    return 0 if publish("averaging", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())
