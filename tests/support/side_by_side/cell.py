"""One fault of one contender, watched for a bounded time."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from side_by_side.contender import CHECKPOINT_S, Contender, Name, Task
from side_by_side.ours import Ours
from side_by_side.outcome import Kind, grew_at, outcome, whole_at
from side_by_side.stock import Stock

#: Until all train and a checkpoint is there; no outcome of a fault, but an error of the harness, if it takes longer.
READY_S = 300.0
#: So much longer before the fault, so that the newest checkpoint is none of the first steps.
SETTLE_S = 2.5 * CHECKPOINT_S
POLL_S = 0.3
#: After its fault is over a training is watched until all train again, for this long without a step at most, and for
#: this long in all.
STILL_S = 75.0
WATCH_S = 120.0
#: So much longer once all train again.
STEADY_S = 5.0
#: What was under way when the fault began is no sign of life.
UNDER_WAY_S = 1.0
STOPPED_S = 20.0
#: Steps of a training whose counter can be told from one that began anew.
STEPS = 100


@dataclass(frozen=True)
class Fault:
    """`moved`: comes back on another port; `stopped`: SIGSTOP for STOPPED_S instead of SIGKILL."""

    words: str
    task: Task
    moved: bool = False
    stopped: bool = False


FAULTS = {
    "worker": Fault("a worker is killed", ("worker", 1)),
    "ps": Fault("a parameter server is killed", ("ps", 1)),
    "chief": Fault("the chief or coordinator is killed", ("chief", 0)),
    "worker-moves": Fault("a worker is killed and comes back on another port", ("worker", 1), moved=True),
    "ps-moves": Fault("a parameter server is killed and comes back on another port", ("ps", 1), moved=True),
    "ps-stops": Fault("a parameter server stands still for 20 s (SIGSTOP)", ("ps", 1), stopped=True),
}
NAMES: tuple[Name, ...] = get_args(Name)


@dataclass(frozen=True)
class Run:
    """What was observed. `restarts`: how often each task was started again; `error`: the last that one ended with."""

    name: Name
    fault: str
    kind: Kind
    step: int
    lost: int
    pause_s: float
    whole_s: float | None
    missing: int
    restarts: dict[str, int]
    error: str
    seconds: float


def begin(name: Name, folder: Path) -> Contender:
    """Start a contender."""
    return Ours(folder) if name == "afo" else Stock(name, folder)


def observe(name: Name, fault: str, folder: Path) -> Run:
    """Start, disturb, watch, end. Raises `TimeoutError` if it does not train at all."""
    began = time.monotonic()
    contender = begin(name, folder)
    try:
        _wait_until_it_trains(contender)
        fault_at, over_at = _inflict(contender, FAULTS[fault])
        until = _watch(contender, over_at + UNDER_WAY_S)
        result = outcome(
            contender.seen(), fault_at, until, contender.trainers(), over_at=over_at + UNDER_WAY_S,
            gave_up=contender.gave_up(),
        )  # fmt: skip
        restarts, error = contender.story()
        step = max(each.step for each in contender.seen() if each.time <= fault_at)
    finally:
        contender.close()
    return Run(
        name, fault, result.kind, step, result.lost, result.pause_s, result.whole_s, result.missing, restarts,
        error, time.monotonic() - began,
    )  # fmt: skip


def _wait_until_it_trains(contender: Contender) -> None:
    began, deadline = time.time(), time.monotonic() + READY_S
    while not _is_ready(contender, began):
        if time.monotonic() > deadline:
            raise TimeoutError(f"it does not train after {READY_S:g} s: {contender.seen()[-3:]}, {contender.story()}")
        _tend(contender)
    for _ in range(int(SETTLE_S / POLL_S)):
        _tend(contender)


def _is_ready(contender: Contender, began: float) -> bool:
    seen = contender.seen()
    made = max((each.step for each in seen), default=0)
    return made > STEPS and contender.saved() and whole_at(seen, began, contender.trainers()) is not None


def _inflict(contender: Contender, fault: Fault) -> tuple[float, float]:
    """When the fault began and when it was over."""
    began = time.time()
    if not fault.stopped:
        contender.kill(fault.task, moved=fault.moved)
        return began, time.time()
    stopped, deadline = contender.process(fault.task), time.monotonic() + STOPPED_S
    stopped.suspend()
    while time.monotonic() < deadline:
        _tend(contender)
    if stopped.is_running():  # whoever supervises it may have ended it meanwhile
        stopped.resume()
    return began, time.time()


def _watch(contender: Contender, since: float) -> float:
    """Until all have trained for STEADY_S since then, or there is nothing to wait for; returns when that was."""
    while (now := time.time()) < since + WATCH_S and not contender.gave_up():
        _tend(contender)
        seen = contender.seen()
        whole = whole_at(seen, since, contender.trainers())
        if whole is not None and now > whole + STEADY_S:
            break
        if now > max(since, grew_at(seen)) + STILL_S:
            break
    return time.time()


def _tend(contender: Contender) -> None:
    contender.tend()
    time.sleep(POLL_S)
