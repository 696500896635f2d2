"""Restarts out of an event log: when, why, how long, and what was trained again."""

from afo.events import types as ev
from afo.events.downtime import Outage, Redone
from afo.events.downtime_fold import MASTER, DowntimeFold
from afo.events.event_log import VERSION, Record
from afo.failures.causes import APPLICATION_ATTEMPT_LOST
from afo.rpc.messages import TaskId
from job_writer import task_id

WORKER, OTHER, PS = task_id("worker"), task_id("worker", 1), task_id("ps")


class Log:
    """Takes events at their seconds."""

    def __init__(self, version: int = VERSION) -> None:
        self.fold, self._version, self.attempt, self.incarnation = DowntimeFold(), version, 1, 1
        self.at(0, _started())
        for task in (PS, WORKER, OTHER):
            self.container(1, task, "node-1")
        self.at(5, _ready(1, 0), _work(WORKER), _work(OTHER))

    def at(self, time: float, *events: ev.AnyEvent) -> "Log":
        for event in events:
            self.fold.take(
                Record(
                    v=self._version,
                    seq=1,
                    am_attempt=self.attempt,
                    incarnation=self.incarnation,
                    time=1000.0 + time,
                    event=event,
                )
            )
        return self

    def container(self, time: float, task: TaskId, host: str) -> None:
        container = f"c{task.attempt}"
        self.at(time, ev.ContainerRequested(task=task, memory=1, vcores=1))
        self.at(time + 1, ev.ContainerRunning(task=task, handle="r", container=container, host=host))
        self.at(
            time + 2,
            ev.TaskRegistered(task=task, container=container, host=host, pid=1, log_url="", environment={}),
        )

    def only(self) -> Outage:
        (row,) = self.fold.outages()
        return row


def _started() -> ev.JobStarted:
    return ev.JobStarted(
        job_id="local_1_0001", name="n", user="u", queue="q", runtime="local", afo_version="0", submitted=1000.0,
        train_files=(), eval_files=(), epochs=1,
    )  # fmt: skip


def _work(task: TaskId, generation: int = 1) -> ev.TaskAtWork:
    return ev.TaskAtWork(task=task, generation=generation)


def _ready(generation: int, samples: int, **fields: object) -> ev.VariablesReady:
    given = {"restored": "", "step": samples // 10, **fields}
    return ev.VariablesReady(task=WORKER, generation=generation, samples=samples, **given)  # type: ignore[arg-type]


def _end(task: TaskId, cause: str) -> ev.TaskEnded:
    return ev.TaskEnded(task=task, cause=cause, code=None, message="its machine went away")


def test_a_worker_is_away_until_its_first_step_and_the_others_train_on() -> None:
    log, again = Log().at(10, _end(OTHER, "node_lost")), task_id("worker", 1, 1)
    log.container(12, again, "node-2")
    assert log.only().away is None
    log.at(20, _work(again))
    row = log.only()
    assert (row.what, row.attempt, row.cause, row.host, row.now_on) == ("worker:1", 0, "node_lost", "node-1", "node-2")
    assert (row.away, [seconds for _, seconds in row.phases]) == (10.0, [2.0, 1.0, 1.0, 6.0])
    told = log.fold.downtime()
    assert (told.seconds(2000.0), told.task_s, told.restarts) == (0.0, 10.0, 1)


def test_a_parameter_server_stops_all_and_what_was_trained_since_the_checkpoint_comes_again() -> None:
    log = Log().at(100, _end(PS, "container_lost"))
    log.at(100, ev.GenerationEnded(generation=1, reason="gone", manifest="m", step=250, samples=2500))
    log.container(101, task_id("ps", 0, 1), "node-2")
    assert log.fold.downtime().seconds(1110.0) == 10.0, "it goes on"
    log.at(120, _ready(2, 2000, restored="m"))
    log.at(125, _work(WORKER, 2)).at(126, _work(OTHER, 2)).at(300, _end(WORKER, "succeeded"))
    log.at(325, ev.JobEnding(state="SUCCEEDED", cause="succeeded", diagnostics=""))
    row, told = log.only(), log.fold.downtime()
    assert (row.what, row.away, row.redone) == ("ps:0", 25.0, Redone(steps=50, samples=500))
    assert told.seconds(9999.0) == 25.0


def test_a_task_that_hung_was_away_since_its_last_step() -> None:
    hung = ev.TaskEnded(task=OTHER, cause="hung", code=None, message="no step for 80 s", idle_s=80.0)
    log, again = Log().at(100, hung), task_id("worker", 1, 1)
    log.container(101, again, "node-2")
    log.at(110, _work(again))
    row = log.only()
    assert (row.away, row.phases[:2]) == (90.0, (("detection", 80.0), ("request", 1.0)))
    assert log.fold.downtime().seconds(2000.0) == 0.0, "the other trained"


def test_a_log_that_claims_any_idle_time_has_no_time_before_the_first() -> None:
    for idle in (1e308, -1e308):
        log = Log().at(100, ev.TaskEnded(task=OTHER, cause="hung", code=None, message="", idle_s=idle))
        assert 0 <= log.only().lost <= 1100


def test_all_stood_still_for_as_long_as_a_parameter_server_was_silent() -> None:
    silent = ev.TaskEnded(task=PS, cause="unresponsive", code=None, message="stopped", idle_s=40.0)
    log = Log().at(100, silent, ev.GenerationEnded(generation=1, reason="gone", manifest="m", step=250, samples=2500))
    log.container(101, task_id("ps", 0, 1), "node-2")
    log.at(110, _ready(2, 2000, restored="m")).at(115, _work(WORKER, 2))
    assert log.only().away == log.fold.downtime().seconds(2000.0) == 55.0


def test_training_stands_still_from_the_last_worker_that_ended_itself() -> None:
    log = Log()
    for task, idle in ((WORKER, 20.0), (OTHER, 25.0)):
        log.at(100, ev.TaskEnded(task=task, cause="orphaned", code=76, message="alone", idle_s=idle))
    log.at(130, _work(task_id("worker", 0, 1)))
    assert log.fold.downtime().seconds(2000.0) == 50.0


def test_with_a_partial_recovery_updates_are_missing_and_nothing_comes_again() -> None:
    log = Log().at(10, _end(PS, "container_lost"))
    log.at(10, ev.GenerationEnded(generation=1, reason="gone", manifest="m", kept=(1,), step=9, samples=90))
    log.at(20, _ready(2, 90, restored="m", kept=(1,), lost_samples=40)).at(22, _work(OTHER, 2))
    assert (log.only().redone, log.only().missing_samples, log.only().away) == (None, 40, 12.0)


def test_a_lost_application_master_is_one_row_from_its_last_word() -> None:
    log = Log().at(50, ev.AmStarted(am_attempt=1, incarnation=1, address="", host="node-9", pid=1))
    log.attempt = 2
    log.at(90, *(_end(task, APPLICATION_ATTEMPT_LOST) for task in (PS, WORKER, OTHER)))
    log.at(90, ev.GenerationEnded(generation=1, reason="gone", manifest="m", step=30, samples=None))
    log.at(90, ev.AmStarted(am_attempt=2, incarnation=1, address="", host="node-8", pid=1))
    for task in ("ps", "worker"):
        log.container(91, task_id(task, 0, 1), "node-2")
    log.at(100, _ready(2, 200, restored="m")).at(110, _work(task_id("worker", 0, 1), 2))
    row = log.only()
    assert (row.what, row.host, row.now_on, row.tasks, row.away) == (MASTER, "node-9", "node-8", 3, 60.0)
    assert row.redone == Redone(steps=10, samples=None), "how far it had come is known by its step alone"
    told = log.fold.downtime()
    assert told.seconds(2000.0) == 60.0
    assert (told.restarts, told.masters, told.task_restarts) == (1, 1, 3)


def test_an_application_master_that_waited_for_room_says_so() -> None:
    log = Log().at(50, ev.AmStarted(am_attempt=1, incarnation=1, address="", host="h", pid=1))
    log.incarnation = 2
    log.at(90, ev.AmStarted(am_attempt=1, incarnation=2, address="", host="h", pid=2, waited_for="disk_full"))
    assert (log.only().what, log.only().cause, log.only().away) == (MASTER, "disk_full", 40.0)


def test_a_process_that_fails_again_and_ends_the_job_was_away_until_then() -> None:
    log = Log()
    for time in (10, 14):
        log.at(time, ev.ProcessEnded(task=OTHER, cause="user_exception", code=1, message="ValueError"))
    log.at(15, ev.JobEnding(state="FAILED", cause="user_exception", diagnostics="", first_task=OTHER))
    row = log.only()
    assert (row.in_place, row.away, row.trained) == (True, 4.0, 0.0)
    assert log.fold.downtime().restarts == 1, "the end that decided is no restart"


def test_an_end_while_no_application_master_was_there_counts_from_the_end() -> None:
    log = Log().at(50, ev.AmStarted(am_attempt=1, incarnation=1, address="", host="h", pid=1))
    log.incarnation = 2
    log.at(90, ev.AmStarted(am_attempt=1, incarnation=2, address="", host="h", pid=2))
    log.at(91, *(
        ev.ProcessEnded(task=task, cause="killed_by_signal", code=-9, message="", idle_s=idle_s)
        for task, idle_s in ((WORKER, 31.0), (OTHER, 0.0))
    ))  # fmt: skip
    log.at(95, _work(OTHER, 1)).at(96, _work(WORKER, 1))
    _, row, other = log.fold.outages()
    assert (row.lost, row.noticed, row.away, other.lost, other.noticed) == (1060.0, 1091.0, 36.0, 1091.0, 0.0)
    assert dict(row.phases)["detection"] == 31.0


def test_an_older_log_does_not_tell() -> None:
    log = Log(version=2).at(10, _end(PS, "container_lost"))
    log.at(10, ev.GenerationEnded(generation=1, reason="gone", manifest="m"))
    log.at(20, ev.VariablesReady(task=WORKER, generation=2, restored="m", step=3))
    log.at(30, ev.JobEnding(state="SUCCEEDED", cause="succeeded", diagnostics=""))
    told = log.fold.downtime()
    assert (told.seconds(2000.0), told.share(2000.0), told.task_s) == (None, None, None)
    assert (log.only().away, log.only().redone) == (None, Redone())
