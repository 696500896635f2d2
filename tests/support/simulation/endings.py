"""What has to hold of a schedule that is over."""

from __future__ import annotations

from collections.abc import Iterator

from afo.events import types as ev
from afo.failures.causes import CAUSES
from afo.rpc import messages as m
from afo_am.state import commands as c
from simulation.broken import Broken
from simulation.cluster import SimulatedCluster


def look(cluster: SimulatedCluster) -> None:
    """Raises `Broken`."""
    cluster.look()
    words = next((words for each in _CHECKS for words in each(cluster)), "")
    if words:
        raise Broken(words)
    _a_verdict_is_final(cluster)


def _one_verdict(cluster: SimulatedCluster) -> Iterator[str]:
    ledger, finished = cluster.ledger, cluster.finished
    if len(cluster.events(ev.JobEnding)) != 1 or len(cluster.events(ev.JobFinished)) != 1:
        yield "there is not one verdict and one last event"
    elif ledger.verdict is None or finished is None or finished.state != ledger.verdict.state:
        yield f"the runtime was told {finished}, the verdict is {ledger.verdict}"
    elif ledger.killed and finished.state != "KILLED":
        yield f"somebody ended the job, and it is {finished.state}"


def _failed_for_a_reason(cluster: SimulatedCluster) -> Iterator[str]:
    verdict = cluster.ledger.verdict
    if verdict is None or verdict.state != "FAILED":
        return
    ended = cluster.ledger.ended
    of_task = ended is not None and ended.task == verdict.first_task and ended.cause == verdict.cause
    if not of_task and verdict.cause not in cluster.provoked:
        yield f"nothing led to {verdict}"
    if verdict.cause not in CAUSES or verdict.cause in ("succeeded", "ended_with_job"):
        yield f"{verdict.cause} is no reason for a failure"


def _every_split_once(cluster: SimulatedCluster) -> Iterator[str]:
    config = cluster.config
    if cluster.ledger.verdict.state != "SUCCEEDED" or config.job.program:
        return
    if not cluster.ledger.closed or cluster.core.state.files != cluster.files:
        yield "SUCCEEDED with another list of splits than there was, or before it was closed"
    wanted = {(row, epoch) for row in range(len(cluster.files)) for epoch in range(config.job.data.epochs)}
    if cluster.ledger.done != wanted or set(cluster.core.state.splits.totals) != wanted:
        yield "SUCCEEDED without every file of every epoch"
    if cluster.model.applied != dict.fromkeys(wanted, 1):
        wrong = {key: times for key, times in cluster.model.applied.items() if times != 1}
        yield f"files (row, epoch) applied more or less than once: {wrong or wanted - cluster.model.applied.keys()}"
    if cluster.core.state.final_manifest != cluster.ledger.manifest:
        yield "the last checkpoint is not the final one"


def _nothing_left(cluster: SimulatedCluster) -> Iterator[str]:
    """The AM leaves no container behind but what it cannot reach."""
    asked = {*cluster.killed, *(command.handle for command in cluster.held if isinstance(command, c.KillContainer))}
    left = {handle for handle, info in cluster.containers.items() if info.state != "ended"}
    if left - asked:
        yield f"containers {sorted(left - asked)} were left behind, and never asked to end"


def _orders_ended(cluster: SimulatedCluster) -> Iterator[str]:
    given = cluster.core.state.open_orders
    if left := [number for number in cluster.ledger.open_orders if not cluster.ledger.is_live(given[number].task)]:
        yield f"orders {left} without an end"
    if len(set(cluster.carried_out)) != len(cluster.carried_out):
        yield "an order was carried out twice"


def _counted(cluster: SimulatedCluster) -> Iterator[str]:
    for key, line in cluster.ledger.lines.items():
        task = cluster.core.state.tasks[key]
        unmended = line.ends.unmended
        known = (task.id.attempt, task.free_restarts, len(task.faults), task.repair and task.repair[:2])
        seen = (line.attempt, line.ends.free, len(line.ends.faults), (unmended[0], len(unmended)) if unmended else None)
        if known != seen:
            yield f"{task.id}: attempt, free restarts, faults, repair are {seen} in the events, {known} in the state"


def _wanted_last(cluster: SimulatedCluster) -> Iterator[str]:
    if cluster.core.state.workers not in cluster.wanted or cluster.ledger.workers != cluster.core.state.workers:
        yield f"{cluster.core.state.workers} workers are wanted, and somebody said {cluster.wanted} last"


def _loss_counted(cluster: SimulatedCluster) -> Iterator[str]:
    """Of every partial recovery; the chief says it again where its report was lost."""
    told = [event.lost_samples for event in cluster.events(ev.VariablesReady) if event.kept]
    counted = iter(cluster.model.lost_samples)
    if not all(samples in counted for samples in told):
        yield f"lost samples were told as {told}, and are {cluster.model.lost_samples}"


_CHECKS = (
    _one_verdict, _failed_for_a_reason, _every_split_once, _loss_counted, _nothing_left, _orders_ended, _counted,
    _wanted_last,
)  # fmt: skip


def _a_verdict_is_final(cluster: SimulatedCluster) -> None:
    """Whatever comes later: another start of the AM, a kill, a Child that is back."""
    state = cluster.core.state.verdict
    cluster.dies_after = None
    cluster.outage_until = 0.0
    cluster.restart_am()
    ids = [task.id for task in cluster.core.state.tasks.values()]
    for stimulus in (
        m.KillRequest(user="bob", reason="late"), c.Tick(), c.ContainersSeen(tuple(cluster.containers.values())),
        *(m.ExitReport(task=task, generation=1, code=1, cause="failed", tail="") for task in ids),
    ):  # fmt: skip
        cluster._handle(stimulus)
    if cluster.core.state.verdict != state:
        raise Broken(f"the verdict was {state} and became {cluster.core.state.verdict}")
