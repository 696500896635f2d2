"""The interface of a container runtime: the few calls that the AM makes, and what they promise."""

from typing import Literal, Protocol

from msgspec import Struct

from afo.rpc.messages import TaskId

ContainerState = Literal["requested", "running", "ended"]
FinalState = Literal["SUCCEEDED", "FAILED", "KILLED"]


class ContainerInfo(Struct, frozen=True, kw_only=True):
    """One container as the runtime sees it. `handle` names it from the request on; `container` once allocated."""

    handle: str
    state: ContainerState
    container: str = ""
    host: str = ""
    #: The runtime's own words about the end; helps to classify, is never the only truth.
    diagnostics: str = ""
    #: Exit code where the runtime knows it; skein does not.
    exit_code: int | None = None


class Node(Struct, frozen=True, kw_only=True):
    """A machine that can hold containers. Memory in MiB."""

    host: str
    memory: int
    vcores: int
    memory_used: int = 0
    vcores_used: int = 0
    labels: tuple[str, ...] = ()

    @property
    def memory_free(self) -> int:
        """May be below 0 where the scheduler gives more than there is."""
        return self.memory - self.memory_used

    @property
    def vcores_free(self) -> int:
        """As `memory_free`."""
        return self.vcores - self.vcores_used


class QueueUse(Struct, frozen=True, kw_only=True):
    """What a queue may have at most, and what its applications have. Memory in MiB."""

    path: str
    memory: int
    vcores: int
    memory_used: int
    vcores_used: int


class Runtime(Protocol):
    """Promises of every implementation.

    1. `request` returns at once with a handle that is unique for the life of the job, also over a restarted AM.
    2. Every handle that `request` returned is in every later `list_containers` until the job ends.
    3. `kill` cancels a pending request, ends a running container, and is a no-op for one that ended.
    4. `list_containers` also shows containers that an earlier incarnation of the AM asked for.
    5. `finish` ends the application with a verdict; nothing may be called after it except `close`.
    6. Errors are `ClusterUnreachable` (worth another try) or another `AfoError` (not worth one).
    """

    def request(self, task: TaskId, env: dict[str, str], *, more_memory: bool = False) -> str:
        """Ask for a container that runs a Child for `task` with `env` on top of the runtime's own.

        `more_memory`: the last attempt ran out of it; a runtime that can gives more.
        """

    def kill(self, handle: str) -> None:
        """Cancel or end a container."""

    def list_containers(self) -> list[ContainerInfo]:
        """All containers of this job, ended ones included."""

    def progress(self, fraction: float) -> None:
        """Show how far the job is, 0 to 1."""

    def finish(self, state: FinalState, diagnostics: str) -> None:
        """End the application."""

    def nodes(self) -> list[Node]:
        """Machines of the cluster. May be called by another thread than the rest, as `queue`."""

    def queue(self) -> QueueUse | None:
        """The queue that this job is in; None where there is none, or its scheduler does not say what it has."""

    def close(self) -> None:
        """Release what this process holds; containers go on."""
