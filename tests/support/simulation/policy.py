"""The restart policy once more, from the event log alone: must this end of a task fail the job, and when may it return.

Reads budgets and pauses from the job file, and from `afo.failures.causes` who is to blame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from afo.failures import causes
from afo.job import Job, Role
from afo_am.policy import restarts
from afo_am.policy.lifecycle import MEMORY_CAUSES

#: Causes of ends that are no failure of anything: the cluster is full.
WAITS = ("request_unanswered", "gang_released")
#: The AM looks at the clock once in a turn of the simulation, and may die in one. Without a pause it does not wait.
SLACK_S = 12.0
ANY_TIME = float("inf")
#: Processes that are started anew in one container.
MAX_IN_PLACE = 3
#: Causes that are read off the last exception of a process: they fail the job when the same one comes again.
_EXCEPTIONS = frozenset(
    {"user_exception", "data_error", "spec_error", "file_not_found", "permission_denied", "quality_gate",
     "model_error", "not_finite"}
)  # fmt: skip
_ANY_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True)
class Judgement:
    """Whether the job has to fail with an end, and why."""

    fails: bool
    words: str


@dataclass
class Ends:
    """Ends of one role and index that somebody is to blame for, oldest first."""

    faults: list[tuple[float, str, str]] = field(default_factory=list)
    free: int = 0
    times: list[float] = field(default_factory=list)
    #: Of ends that only a person can mend, without progress of the task since.
    unmended: list[float] = field(default_factory=list)

    def add(self, cause: str, message: str, time: float) -> None:
        """One more."""
        entry = causes.CAUSES[cause]
        if cause in causes.NEEDS_REPAIR:
            self.unmended.append(time)
        if entry.blame == "user":
            self.faults.append((time, cause, _ANY_NUMBER.sub("#", message)))
        elif cause in WAITS or not entry.retried:
            return
        else:
            self.free += 1
        self.times.append(time)

    def judge(self, job: Job, role: Role, time: float, cause: str, everyone: Iterable[Ends]) -> Judgement:
        """What the end that was just added has to lead to."""
        budget = job.restart.of(role)
        entry = causes.CAUSES[cause]
        if self.free > causes.MAX_FREE_RESTARTS:
            return Judgement(True, f"the cluster ended it {self.free} times")
        if cause in causes.NEEDS_REPAIR and self.is_overdue(job, time):
            return Judgement(True, f"nobody mended it since {self.unmended[0]:g}")
        if entry.blame == "user":
            spent = sum(time - fault[0] <= budget.per for fault in self.faults)
            if spent > budget.max:
                return Judgement(True, f"{spent} ends in {budget.per} are more than {budget.max}")
        if cause in MEMORY_CAUSES and sum(fault[1] in MEMORY_CAUSES for fault in self.faults) > 1:
            return Judgement(True, "more memory did not help")
        if cause in _EXCEPTIONS:
            return self._judge_exception(job, time - budget.per, (self,) if job.program else everyone)
        return Judgement(not entry.retried, f"{cause} is {'' if entry.retried else 'not '}retried")

    def is_overdue(self, job: Job, time: float) -> bool:
        """Whether nobody mended what it ends with in `timeouts.repair`."""
        return bool(self.unmended) and time > self.unmended[0] + job.timeouts.repair

    def _judge_exception(self, job: Job, since: float, everyone: Iterable[Ends]) -> Judgement:
        _, cause, words = self.faults[-1]
        if words.partition(":")[0] in restarts._OWN_FAULTS or not (job.program or causes.CAUSES[cause].retried):
            return Judgement(True, f"{cause} is not retried")
        allowed = restarts._SAME_OF_PROGRAM if job.program else restarts._SAME_OF_MODEL
        same = sum(
            fault[0] >= since and fault[1] in _EXCEPTIONS and fault[2] == words
            for ends in everyone
            for fault in ends.faults
        )
        return Judgement(same > allowed, f"this exception came {same} times")

    def pause(self, job: Job, time: float) -> tuple[float, float]:
        """From when until when it is to be started again after an end at `time`."""
        backoff = job.restart.backoff
        recent = sum(time - end <= backoff.reset for end in self.times)
        seconds = min(float(backoff.max), float(backoff.initial) * 2.0 ** (recent - 2)) if recent > 1 else 0.0
        return time + 0.75 * seconds, time + 1.25 * seconds + (SLACK_S if seconds else 0.0)


@dataclass
class Line:
    """One role and index through its attempts. `stage`: open, registered, succeeded or ended."""

    attempt: int = 0
    stage: str = "open"
    ends: Ends = field(default_factory=Ends)
    #: The job goes on without it.
    given_up: bool = False
    #: The cause that the present attempt is to end with, because it was told to leave; '' while it may stay.
    leaves: str = ""
    #: The present attempt was found slow.
    slow: bool = False
    #: Since when its container runs, 0 while none does.
    runs_since: float = 0.0
    #: From when until when it is to come back.
    window: tuple[float, float] = (0.0, ANY_TIME)
