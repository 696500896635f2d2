"""docs/reports/stock-tensorflow-part3.md."""

from collections.abc import Sequence

from resumable_runs import circumstances
from side_by_side.cell import FAULTS, NAMES, STILL_S, WATCH_S, Run
from side_by_side.contender import CHECKPOINT_S
from side_by_side.outcome import IN_FLIGHT
from side_by_side.stock import MAX_STARTS, PAUSE_S

_TITLES = {"coordinator": "ParameterServerStrategy", "monitored": "MonitoredTrainingSession", "afo": "afo"}
_HOW = f"""\
Written by `make compare-faults` (`tests/integration/faults/test_compare_faults.py`, `tests/support/side_by_side`).
Each cell is a training of its own: 1 chief or coordinator, 2 parameter servers and 2 workers as processes of one
machine, a checkpoint every {CHECKPOINT_S:g} s. Once all train and a checkpoint is there, the fault comes. Then the step
of the model, and which processes make steps, are watched until all train again, for {STILL_S:g} s without a step after
the fault is over, or for {WATCH_S:g} s.

- **ParameterServerStrategy**: the program coordinates with a ClusterCoordinator, saves regularly and begins with the
  newest checkpoint, as "Handling Task Failure" in the documentation of `tf.distribute.coordinator.ClusterCoordinator`
  says. The chief is the coordinator; the workers make the steps.
- **MonitoredTrainingSession**: chief and workers step asynchronously, with `device_filters` as
  `tf.estimator.RunConfig` sets them; the session recovers from AbortedError and UnavailableError by itself, as the
  documentation of `MonitoredSession` says, and the chief saves.
- Both run with `GRPC_FAIL_FAST=use_caller` in every task (TensorFlow RFC 355, and the tutorial "Parameter server
  training with ParameterServerStrategy"), under a plain supervisor: whatever ends, killed or by an error of its own, is
  started again {PAUSE_S:g} s later with the same role and address, {MAX_STARTS} times at most. On another port means
  that the task's own `TF_CONFIG` has a new port, and that of what is started later, while the others keep what they
  were started with, as where a scheduler places a task anew.
- **afo**: a `model:` job on the `local` runtime. Its workers listen on no port; in "comes back on another port" the
  Child is killed, so that the task comes back in another container. A parameter server has another port after each
  start.

*Recovered*: the step grows again; "without k" where k of the processes that should make steps had made none by the
end. *From zero*: it grows again, from the beginning. *Hung*: no step any more. *Failed*: a task ended {MAX_STARTS + 1}
times. *Lost*: by how much the step fell, 0 up to {IN_FLIGHT}, as several processes read it at once. *Pause*: the
longest time without a step of any process. *Whole*: from the fault until every process had made a step.
The steps of TensorFlow alone are of a linear model and wait a little in between; those of afo are of Wide & Deep
at full speed, so what starts again has less of the machine to itself.
Rates, numbers of steps and seconds do not compare, outcomes do.
"""

_WHY = """\
## Why

- **A worker**: the others go on everywhere. A coordinator gives its steps to another worker; the workers of a
  MonitoredTrainingSession and of afo are clients of their own.
- **A parameter server**: its variables are gone, so all go back to the newest checkpoint. A coordinator ends with
  UnavailableError and needs its supervisor; the sessions recover by themselves, and the chief restores; afo's AM begins
  a new generation.
- **The chief**: without its coordinator nothing moves, and what comes back begins with the newest checkpoint, although
  the variables are still on the parameter servers. The workers of a MonitoredTrainingSession go on, until the chief
  that comes back writes the newest checkpoint over what they have done meanwhile. afo's chief asks the AM whether the
  variables are prepared, and trains on.
- **A worker on another port**: every process has the addresses that it was started with. The coordinator keeps asking
  the old one; a parameter server fetches gradients from the old one. The training goes on without that worker for good,
  and says so nowhere but in logs. afo's workers have no address.
- **A parameter server on another port**: the sessions wait for the old address. A coordinator ends, is started again
  with the new `TF_CONFIG`, and tells its workers: it recovers where the supervisor knows the new address. afo's AM
  collects the addresses anew for each generation.
- **A parameter server that stands still**: all wait for it, and go on.

Not compared: which samples a restart trains on again or leaves out. TensorFlow alone leaves that to the program.
"""


def page(runs: Sequence[Run]) -> str:
    """The report."""
    found = {(run.name, run.fault): run for run in runs}
    head = ["fault", *(_TITLES[name] for name in NAMES)]
    rows = [
        [fault.words, *(_cell(found.get((name, key))) for name in NAMES)] for key, fault in FAULTS.items()
    ]  # fmt: skip
    details = [_details(found[name, key]) for name in NAMES for key in FAULTS if (name, key) in found]
    columns = ["", "fault", "step at the fault", "started again", "last error of a task", "seconds in all"]
    return "\n".join([
        "# Faults: afo and TensorFlow alone", "", _HOW, circumstances(runs, "afo", "tensorflow-cpu", "keras"), "",
        *_table(head, rows), "", *_table(columns, details), "", _WHY,
    ])  # fmt: skip


def _cell(run: Run | None) -> str:
    if run is None:
        return "not run"
    if run.kind in ("hung", "failed"):
        return f"**{run.kind}**, for {run.pause_s:.0f} s at least" if run.kind == "hung" else "**failed**"
    words = f"{run.kind}" if run.missing == 0 else f"{run.kind} **without {run.missing}**"
    whole = "" if run.whole_s is None else f"; whole after {run.whole_s:.0f} s"
    return f"{words}; {run.lost} steps lost; pause {run.pause_s:.0f} s{whole}"


def _details(run: Run) -> list[str]:
    again = ", ".join(f"{task} {count}×" for task, count in sorted(run.restarts.items())) or "none"
    error = run.error.replace("|", "/")
    return [_TITLES[run.name], run.fault, str(run.step), again, error, f"{run.seconds:.0f}"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
