"""A job as its runtime sees it, and what every runtime can be asked."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from afo.protocol.am_config import AmConfig


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
    """Every call is bounded in time and raises only `AfoError`s.

    The `AmConfig` of a job that is not submitted yet leaves out its id and the paths inside of its container.
    """

    def check(self, config: AmConfig, schema: str) -> None:
        """Refuse what `submit` would refuse before anything starts. Raises what it would raise."""

    def submit(self, config: AmConfig, schema: str, secret: str, tell: Callable[[str], None]) -> str:
        """Start a job and return its id; `tell` hears what was sent. Nothing runs after what this raises, unless it is
        `ClusterUnreachable`."""

    def dry_run(self, config: AmConfig, schema: str) -> dict[str, Any]:
        """What `submit` would send; sends and starts nothing."""

    def application(self, job_id: str) -> Application:
        """One job. Raises `NotFound` when the runtime does not know it."""

    def applications(self) -> list[Application]:
        """All jobs of afo that the runtime knows, beyond those that their directories tell of."""

    def find_marked(self, mark: str) -> str | None:
        """The job submitted with this mark (`AmConfig.once`) if there is one that the runtime knows."""

    def kill(self, job_id: str) -> None:
        """End a job by force; nothing happens to one that has ended."""
