"""A job as its runtime sees it, and what every runtime can be asked."""

from typing import Protocol

from msgspec import Struct


class Application(Struct, frozen=True, kw_only=True):
    """A job as its runtime sees it, times in seconds. `final` is '' while it runs, else SUCCEEDED, FAILED or KILLED."""

    job_id: str
    state: str
    final: str = ""
    diagnostics: str = ""
    name: str = ""
    user: str = ""
    queue: str = ""
    started: float = 0.0
    ended: float = 0.0
    #: Where the runtime itself shows the log of the Application Master; '' where it lies with the other logs.
    am_log: str = ""
    #: What it has used, as far as the runtime counts that.
    core_hours: float = 0.0
    memory_gb_hours: float = 0.0


class ClientRuntime(Protocol):
    """Every call is bounded in time and raises only `AfoError`s."""

    def application(self, job_id: str) -> Application:
        """One job. Raises `NotFound` when the runtime does not know it."""

    def applications(self) -> list[Application]:
        """All jobs of afo that the runtime knows, beyond those that their directories tell of."""

    def marked(self, mark: str) -> str | None:
        """The job submitted with this mark (`AmConfig.once`) if there is one that the runtime knows."""

    def kill(self, job_id: str) -> None:
        """End a job by force; nothing happens to one that has ended."""
