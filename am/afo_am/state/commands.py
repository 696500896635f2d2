"""Commands of the core, and stimuli other than the messages of `afo.rpc.messages`. Data only."""

from msgspec import Struct

from afo.protocol.input_file import InputFile
from afo.rpc.messages import TaskId
from afo_am.runtime.base import ContainerInfo, FinalState, Node, QueueUse


class RequestContainer(Struct, frozen=True):
    """Ask the runtime for a container for `task`; answered by `ContainerPlaced`."""

    task: TaskId
    #: Its last attempt ran out of memory.
    more_memory: bool = False


class KillContainer(Struct, frozen=True):
    """End or cancel a container."""

    handle: str


class ShowProgress(Struct, frozen=True):
    """Tell the runtime how far the job is, 0 to 1."""

    fraction: float


class LookAtCluster(Struct, frozen=True):
    """Find out what the cluster has free; answered by `ClusterSeen`, or not at all."""


class FinishJob(Struct, frozen=True):
    """Write the verdict, end the application."""

    state: FinalState
    diagnostics: str


Command = RequestContainer | KillContainer | ShowProgress | LookAtCluster | FinishJob


class ContainerPlaced(Struct, frozen=True):
    """The runtime took a request."""

    task: TaskId
    handle: str


class ContainersSeen(Struct, frozen=True):
    """All containers of the job as the runtime lists them."""

    containers: tuple[ContainerInfo, ...]


class ClusterSeen(Struct, frozen=True):
    """The machines of the cluster, and the job's queue where there is one."""

    nodes: tuple[Node, ...]
    queue: QueueUse | None


class SplitsFound(Struct, frozen=True):
    """Training splits that the source of the job's data holds, numbered from `first` on; `closed`: no more come."""

    first: int
    splits: tuple[InputFile, ...]
    closed: bool


class CommandFailed(Struct, frozen=True):
    """The runtime refuses to give `task` a container."""

    task: TaskId
    message: str


class Tick(Struct, frozen=True):
    """Time has passed."""
