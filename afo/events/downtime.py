"""Downtime of a job: each task that was lost and came back, and all of them together. Pure."""

from msgspec import Struct, structs


class Redone(Struct, frozen=True, kw_only=True):
    """What a return to a checkpoint undid, so that it was trained again; None where the log does not say."""

    steps: int | None = None
    samples: int | None = None


class Outage(Struct, frozen=True, kw_only=True):
    """A task was lost and came back, or the Application Master did. Times in seconds since 1970, 0 while unknown.

    `attempt` is the one that was lost. `requested`, `started`, `registered` are those of the next container, 0 where
    the process began anew in its old one (`in_place`).
    """

    what: str
    attempt: int
    cause: str
    message: str = ""
    lost: float
    host: str = ""
    in_place: bool = False
    #: When the Application Master knew, where that was later: a task that hung, or was silent.
    noticed: float = 0.0
    requested: float = 0.0
    started: float = 0.0
    registered: float = 0.0
    #: Where it runs now.
    now_on: str = ""
    #: At work again; and the end of the row: that, or it was lost again, or its job ended.
    trained: float = 0.0
    over: float = 0.0
    #: Tasks that ended with the Application Master.
    tasks: int = 0
    #: Of a lost parameter server with `checkpoint.on_ps_loss: rollback`; and with `partial`, samples whose updates are
    #: missing in the part that was restored.
    redone: Redone | None = None
    missing_samples: int | None = None

    @property
    def away(self) -> float | None:
        """Seconds; None while it goes on, and where the log does not say."""
        return max(0.0, self.over - self.lost) if self.over else None

    @property
    def phases(self) -> tuple[tuple[str, float], ...]:
        """What the time away went to, in its order, with seconds, as far as the moments between are known.

        Until the loss was noticed, the container was requested, until it ran, until its Child was up, until the first
        step.
        """
        moments = (
            ("detection", self.noticed), ("request", self.requested), ("container", self.started),
            ("start", self.registered), ("first step", self.trained),
        )  # fmt: skip
        known = [(name, time) for name, time in moments if time]
        before = (self.lost, *(time for _, time in known))
        return tuple((name, max(0.0, time - since)) for (name, time), since in zip(known, before, strict=False))


class Downtime(Struct, frozen=True, kw_only=True):
    """`still_s`: seconds that the training stood still; `task_s`: those that tasks were away, added up.

    Both are None where the log does not say. `restarts` counts rows; `masters` of them are losses of the Application
    Master, with which `with_master` tasks ended that have no rows of their own. Times in seconds since 1970: `began` is
    that of the job, `ended` 0 while it runs, `still_since` 0 while the training goes on.
    """

    still_s: float | None = 0.0
    task_s: float | None = 0.0
    restarts: int = 0
    masters: int = 0
    with_master: int = 0
    began: float = 0.0
    ended: float = 0.0
    still_since: float = 0.0

    @property
    def known(self) -> bool:
        """Whether the log tells when tasks are at work."""
        return self.still_s is not None

    @property
    def task_restarts(self) -> int:
        """Of tasks, as a verdict counts them, but for the end that decided it."""
        return self.restarts - self.masters + self.with_master

    def close(self, time: float) -> "Downtime":
        """That of a job that ended without a word at `time`, if it had not ended before."""
        if self.ended:
            return self
        return structs.replace(self, still_s=self.seconds(time), still_since=0.0, ended=time)

    def seconds(self, now: float) -> float | None:
        """How long the training stood still, up to `now`."""
        open_s = max(0.0, now - self.still_since) if self.still_since else 0.0
        return None if self.still_s is None else self.still_s + open_s

    def share(self, now: float) -> float | None:
        """Of the job's time, 0 to 1; None where it is not known."""
        whole, still = (self.ended or now) - self.began, self.seconds(now)
        return min(1.0, still / whole) if still is not None and self.began and whole > 0 else None
