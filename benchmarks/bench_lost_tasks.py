"""What the loss of a parameter server, or of the Application Master, does to a model: AUC, log loss and calibration.

Census income by conf/jobs/adult-yarn.yaml on this machine (`--adult DIRECTORY` of adult.data and adult.test; else
`$AFO_TEST_DATA/adult`; left out where they are not; synthetic clicks with the smallest numbers). Of each seed one job
is left alone, one loses a parameter server and one its Application Master, by SIGKILL once so large a share of the
steps is made as the seed says; the three take turns. The claims: the worst job of each kind is within the bands that
hold for jobs that lose nothing, a log loss of at most .2935 and a calibration of .97 to 1.03; the mean AUC is lower by
less than `MARGIN`.
"""

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

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
    summary,
)
from report import MISSED, publish, result
from size import SMALLEST, sized

from afo.errors import NotFound
from afo.events import types as ev
from afo.events.event_log import Record, read_log
from afo.job.paths import JobPaths

#: The bands, and by how much the mean AUC may be lower.
LOG_LOSS, OFF, MARGIN = 0.2935, 0.03, 0.0005
KINDS = ("nothing", "ps", "master")
JOB_S = 600.0


def trained(scratch: Path, lost: str, seed: int) -> Metrics:
    """The last evaluation of a job that loses a process, or nothing."""
    words = sized(["adult-yarn.yaml", f"data={scratch}/adult"], ["demo.yaml", f"data={scratch}/clicks"])
    more = sized([], ["--set", "data.epochs=6"])
    submit = ["submit", str(JOBS / words[0]), "--runtime", "local", "--detach", "--var", words[1], *more]
    job_id = afo(scratch, *submit, "--set", f"data.shuffle.seed={seed}").strip()
    paths = JobPaths(str(scratch / "jobs"), job_id)
    if lost != "nothing":
        kill(paths, lost, 0.25 + 0.5 * (seed * 0.618 % 1))
    answer = afo(scratch, "wait", job_id, "--json")
    if lost != "nothing" and not any(map(is_loss, events(paths))):
        raise SystemExit(f"{job_id} ended before it could lose its {lost}")
    return metrics_of(answer)


def kill(paths: JobPaths, lost: str, share: float) -> None:
    """SIGKILL once `share` of the steps is made."""
    deadline = time.monotonic() + JOB_S
    while not any(isinstance(event, ev.Sample) and (event.progress or 0) >= share for event in events(paths)):
        if time.monotonic() > deadline:
            raise SystemExit(f"{paths.job_id} did not make {share:.0%} of its steps in {JOB_S:g} s")
        time.sleep(0.2)
    pids = [event.pid for event in events(paths) if is_process_of(event, lost)]
    os.kill(pids[-1], signal.SIGKILL)


def events(paths: JobPaths) -> Iterator[ev.AnyEvent]:
    """What has happened so far."""
    try:
        yield from (record.event for record in read_log(paths.events) if isinstance(record, Record))
    except NotFound:
        return


def is_process_of(event: ev.AnyEvent, lost: str) -> bool:
    """Whether it tells the process id of the newest incarnation of what is to be lost."""
    if isinstance(event, ev.TaskRegistered):
        return event.task.role == lost
    return isinstance(event, ev.AmStarted) and lost == "master"


def is_loss(event: ev.AnyEvent) -> bool:
    """The job has gone back to a checkpoint, or on with another Application Master."""
    return isinstance(event, ev.GenerationEnded) or (isinstance(event, ev.AmStarted) and event.incarnation > 1)


def claims(found: dict[str, list[Metrics]]) -> Iterator[dict[str, object]]:
    """Of each kind of loss that there was."""
    for lost in (each for each in KINDS[1:] if each in found):
        worst = max(each["log_loss"] for each in found[lost])
        off = max(abs(each["calibration"] - 1) for each in found[lost])
        yield result(f"lost {lost}: worst log loss", worst, LOG_LOSS, "log loss", 1.0, lower_is_better=True)
        yield result(f"lost {lost}: calibration off 1", off, OFF, "", 1.0, lower_is_better=True)
        ours, theirs = (statistics.mean(each["auc"] for each in found[kind]) for kind in (lost, KINDS[0]))
        yield result(f"lost {lost}: AUC", ours, theirs - MARGIN, "AUC", 1.0, lower_is_better=False)


def main() -> int:
    """0 if the claims hold."""
    given = arguments(__doc__).parse_args()
    if not SMALLEST and not has_adult(given.adult):
        return 0 if publish("lost_tasks", []) else MISSED
    found: dict[str, list[Metrics]] = {}
    with tempfile.TemporaryDirectory(prefix="afo-lost-tasks-") as folder:
        scratch = Path(folder)
        if SMALLEST:
            make_clicks(scratch, 200_000)
        else:
            convert_adult(scratch, given.adult)
        for seed in range(1, given.seeds + 1):
            for lost in KINDS if seed % 2 else KINDS[::-1]:
                metrics = trained(scratch, lost, seed)
                found.setdefault(lost, []).append(metrics)
                print(
                    f"seed {seed}, lost {lost}: " + ", ".join(f"{name} {metrics[name]:.5f}" for name in METRICS),
                    flush=True,
                )
    for lost, each in found.items():
        print(f"lost {lost}, {summary(each)}")
    return 0 if publish("lost_tasks", [*claims(found)]) else MISSED


if __name__ == "__main__":
    sys.exit(main())
