"""What a learning rate that falls over the last part of a job is worth: AUC, log loss and calibration of paired jobs.

A pair is a job with `optimizer.schedule.cooldown` and one of the same seed without, by job files that afo brings. Two
workers do not wait for each other; the series has one. The order within a pair takes turns.

    adult     conf/jobs/adult-yarn.yaml on this machine: 8 epochs (`--adult DIRECTORY` of adult.data and adult.test;
              else `$AFO_TEST_DATA/adult`; left out where they are not)
    clicks    conf/jobs/demo.yaml: synthetic clicks once, whose best AUC is known
    series    conf/jobs/daily.yaml: days whose clicks move from one teacher to another; each job goes on with the model
              of the day before and is measured on the day after; the mean over the days

The claims: Adult's worst log loss is the lower one with the cooldown, its calibration the nearer one to 1, and the AUC
of clicks is not lower by 0.0005. Of the series it is lower: jobs with a warm start have no cooldown unless they say so.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from quality_jobs import (
    JOBS,
    METRICS,
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

from afo.data.io.example_batch import Column, encode_columns
from afo.data.io.tfrecord import RecordWriter
from afo.data.synthetic.clicks import schema_of
from afo.data.synthetic.teacher import Teacher, TeacherSpec, sigmoid

#: By how much AUC may be lower.
MARGIN = 0.0005
FIRST_DAY = date(2026, 11, 1)
#: (settings of the job, seed) → its metrics.
Train = Callable[[list[str], int], Metrics]


def submitted(scratch: Path, job: str, variables: dict[str, object], settings: list[str], seed: int) -> Metrics:
    """The last evaluation of a job of `conf/jobs`."""
    words = [word for name, value in variables.items() for word in ("--var", f"{name}={value}")]
    words += [word for each in (*settings, f"data.shuffle.seed={seed}") for word in ("--set", each)]
    return metrics_of(afo(scratch, "submit", str(JOBS / job), "--runtime", "local", "--json", *words))


def adult(scratch: Path, source: Path) -> Train:
    """Census income."""
    data = convert_adult(scratch, source)
    return lambda settings, seed: submitted(scratch, "adult-yarn.yaml", {"data": data}, settings, seed)


def clicks(scratch: Path, records: int) -> Train:
    """Those of `afo demo`."""
    data = make_clicks(scratch, records)
    return lambda settings, seed: submitted(scratch, "demo.yaml", {"data": data}, settings, seed)


def series(scratch: Path, days: int, records: int) -> Train:
    """Jobs of successive days; a day's evaluation files are of the day after."""
    teachers = Teacher(TeacherSpec(seed=1)), Teacher(TeacherSpec(seed=2))
    names = [str(FIRST_DAY + timedelta(day)) for day in range(days)]
    for day, name in enumerate(names):
        folder = scratch / "series" / name
        folder.mkdir(parents=True)
        (folder / "schema.yaml").write_text(schema_of(TeacherSpec()).to_yaml())
        write_day(folder / "train", teachers, day / days, records, day)
        write_day(folder / "eval", teachers, (day + 1) / days, max(200, records // 5), 1000 + day)

    def train(settings: list[str], seed: int) -> Metrics:
        models = Path(tempfile.mkdtemp(dir=scratch))
        warm = f"{{sources: ['{models}/{{{{dt-1}}}}'], missing: fresh}}"
        given = ["export.require={}", f"checkpoint.dir={models}/{{{{dt}}}}", f"checkpoint.warm_start={warm}", *settings]
        root = scratch / "series"
        found = [submitted(scratch, "daily.yaml", {"dt": name, "root": root}, given, seed) for name in names]
        return {name: statistics.mean(each[name] for each in found) for name in METRICS}

    return train


def write_day(folder: Path, teachers: tuple[Teacher, Teacher], share: float, records: int, seed: int) -> None:
    """`records` samples whose log odds are by `share` the second teacher's, in four files."""
    folder.mkdir()
    generator = np.random.default_rng(seed)
    first, second = teachers
    draw = first.draw(records, generator)
    logit = (1 - share) * draw.logit + share * second.logit(draw.ids, draw.dense)
    columns: dict[str, Column] = dict(draw.ids)
    columns |= {name: draw.dense[:, place] for place, name in enumerate(first.spec.dense)}
    columns["click"] = (generator.random(records) < sigmoid(logit)).astype(np.int64)
    columns["sample_id"] = np.arange(records) + seed * records
    for part in range(4):
        with RecordWriter(str(folder / f"part-{part}.tfrecord")) as writer:
            writer.write_all(encode_columns({name: values[part::4] for name, values in columns.items()}))


def paired(train: Train, cooldowns: list[float], seeds: int, at_once: int) -> dict[float, list[Metrics]]:
    """Metrics of each seed by cooldown; 0 is among them. So many seeds `at_once`."""

    def of(seed: int) -> dict[float, Metrics]:
        order = cooldowns if seed % 2 else cooldowns[::-1]
        return {cooldown: train([f"optimizer.schedule.cooldown={cooldown}"], seed) for cooldown in order}

    each = of_seeds(of, seeds, at_once)
    return {cooldown: [metrics[cooldown] for metrics in each] for cooldown in cooldowns}


def with_workers(train: Train, workers: int | None) -> Train:
    """Jobs of so many workers; of as many as the job file says where None are given."""
    if workers is None:
        return train
    return lambda settings, seed: train([f"roles.worker.instances={workers}", *settings], seed)


def farthest(metrics: list[Metrics]) -> float:
    """The calibration farthest from 1, by how much."""
    return max(abs(each["calibration"] - 1) for each in metrics)


def claims(name: str, found: dict[float, list[Metrics]], ours: float) -> list[dict[str, object]]:
    """What is claimed of one data set."""
    cooled, constant = found[ours], found[0.0]
    if name == "adult":
        worst = [max(each["log_loss"] for each in side) for side in (cooled, constant)]
        return [
            result("Adult: worst log loss", *worst, "log loss", 1.0, lower_is_better=True),
            result("Adult: calibration off 1", farthest(cooled), farthest(constant), "", 1.0, lower_is_better=True),
        ]
    means = [statistics.mean(each["auc"] for each in side) for side in (cooled, constant)]
    if name == "series":
        return [result("series: AUC at a constant rate", means[1], means[0], "AUC", 1.0, lower_is_better=False)]
    return [result(f"{name}: AUC", means[0], means[1] - MARGIN, "AUC", 1.0, lower_is_better=False)]


def main() -> int:
    """0 if the claims hold."""
    parser = arguments(__doc__)
    parser.add_argument("--what", choices=["adult", "clicks", "series"], action="append")
    parser.add_argument("--cooldown", type=float, action="append", help="0.2 unless given; the first one is judged")
    parser.add_argument("--workers", type=int, help="more of them answer with older weights; the job file's number")
    parser.add_argument("--at-once", type=int, default=1, help="seeds, where there are cores for them")
    given = parser.parse_args()
    cooldowns = given.cooldown or [0.2]
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="afo-cooldown-") as folder:
        scratch = Path(folder)
        makers: dict[str, Callable[[], Train]] = {
            "adult": lambda: adult(scratch, given.adult),
            "clicks": lambda: clicks(scratch, sized(1_500_000, 2000)),
            "series": lambda: series(scratch, sized(6, 2), sized(200_000, 2000)),
        }
        if not given.what and not has_adult(given.adult):
            del makers["adult"]
        for name in given.what or sized([*makers], ["series"]):
            train = with_workers(makers[name](), given.workers)
            found = paired(train, [*cooldowns, 0.0], given.seeds, given.at_once)
            for cooldown, metrics in found.items():
                print(f"{name}, cooldown {cooldown:g}, {summary(metrics)}", flush=True)
            results += claims(name, found, cooldowns[0])
    return 0 if publish("cooldown", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())
