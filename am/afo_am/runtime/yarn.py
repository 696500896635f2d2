"""The `yarn` container runtime, on the ApplicationMaster of skein that runs beside us in our container.

A container is an instance of the service of its role (`afo.yarn.submission`). Its handle is `<attempt>:<service>_<n>`:
skein counts from 0 again in every application attempt, and YARN ends all containers of the attempt before. So a handle
of an earlier attempt is of a container that is over: it is not listed, and `kill` does nothing.

What skein cannot say: the exit code and YARN's own words for an exit code above 0 (a Child reports its end itself),
and a container that another container's end in the same heartbeat hid from it (a Child's heartbeats stop).
"""

from collections.abc import Callable
from typing import Any, TypeVar

import skein

from afo.errors import ClusterUnreachable, NotFound, ProtocolError, SpecError
from afo.process.hosts import host_of
from afo.protocol.child_config import ATTEMPT, INDEX, ROLE
from afo.rpc.messages import TaskId
from afo.yarn import skein_channel
from afo.yarn.queues import Queue
from afo.yarn.resource_manager import ResourceManager, from_configuration
from afo.yarn.submission import service_name
from afo_am.runtime import master_log
from afo_am.runtime.application_attempt import application_attempt
from afo_am.runtime.base import ContainerInfo, ContainerState, FinalState, Node, QueueUse

_T = TypeVar("_T")
_CALL_S = 20.0
_ALL_STATES = ("WAITING", "REQUESTED", "RUNNING", "SUCCEEDED", "FAILED", "KILLED")
_STATE: dict[str, ContainerState] = {"WAITING": "requested", "REQUESTED": "requested", "RUNNING": "running"}


class BoundedApplicationClient(skein.ApplicationClient):  # type: ignore[misc]
    """skein's client with a limit of time for each call; skein itself would wait for ever."""

    def _call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        return super()._call(method, request, timeout=timeout or _CALL_S)


class YarnRuntime:
    """Containers of the application that this process belongs to.

    Raises `ClusterUnreachable` when skein's ApplicationMaster does not answer, `SpecError` for a role that the
    application was not submitted with, `ProtocolError` for anything else that skein refuses.
    """

    def __init__(self) -> None:
        self._attempt = application_attempt()
        skein_channel.direct()
        self._application = _call_skein(BoundedApplicationClient.from_current)
        self._resource_manager: ResourceManager | None = None

    def request(self, task: TaskId, env: dict[str, str], *, more_memory: bool = False) -> str:
        """Ask for a container of the task's role; `more_memory` after one that YARN killed for its memory."""
        own = {ROLE: task.role, INDEX: str(task.index), ATTEMPT: str(task.attempt)}
        service = service_name(task.role, more_memory=more_memory)
        container = _call_skein(lambda: self._application.add_container(service, env={**own, **env}))
        return f"{self._attempt}:{container.id}"

    def kill(self, handle: str) -> None:
        """Cancel or end a container; YARN sends SIGTERM, and SIGKILL soon after."""
        attempt, _, container = handle.partition(":")
        if attempt == str(self._attempt):
            _call_skein(lambda: self._application.kill_container(container))

    def list_containers(self) -> list[ContainerInfo]:
        """All containers of this application attempt."""
        containers = _call_skein(lambda: self._application.get_containers(states=_ALL_STATES))
        return [self._info(container) for container in containers]

    def progress(self, fraction: float) -> None:
        """Shown by YARN."""
        _call_skein(lambda: self._application.set_progress(min(max(fraction, 0.0), 1.0)))

    def finish(self, state: FinalState, diagnostics: str) -> None:
        """End the application attempt.

        A state other than SUCCEEDED ends the application only in its last attempt. YARN starts the next one else, whose
        AM finds the verdict and ends it likewise.
        """
        # skein ends this container with the application, whatever it still has to say.
        master_log.ask_for_copy()
        _call_skein(lambda: self._application.shutdown(state, diagnostics))

    def nodes(self) -> list[Node]:
        """Machines of the cluster, by the ResourceManager's REST interface."""
        return [
            Node(
                host=node.host,
                memory=node.memory,
                vcores=node.vcores,
                memory_used=node.memory_used,
                vcores_used=node.vcores_used,
                labels=node.labels,
            )
            for node in self._manager().nodes()
        ]

    def queue(self) -> QueueUse | None:
        """The queue that YARN put the application into, as its scheduler sees it."""
        manager = self._manager()
        return queue_use(manager.queues(), manager.application(self._application.id).queue)

    def _manager(self) -> ResourceManager:
        if self._resource_manager is None:
            self._resource_manager = from_configuration()
        return self._resource_manager

    def close(self) -> None:
        """Close the connection to skein."""
        self._application.close()

    def _info(self, container: Any) -> ContainerInfo:
        return ContainerInfo(
            handle=f"{self._attempt}:{container.id}",
            state=_STATE.get(str(container.state), "ended"),
            container=container.yarn_container_id,
            host=host_of(container.yarn_node_http_address),
            diagnostics=container.exit_message,
        )


def queue_use(queues: list[Queue], name: str) -> QueueUse | None:
    """What the queue of this path or name may have and has; None where the scheduler does not say."""
    found = [queue for queue in queues if name in (queue.path, queue.name)]
    most, used = (found[0].use.most, found[0].use.used) if found else (None, None)
    if most is None or used is None:
        return None
    return QueueUse(
        path=found[0].path, memory=most.memory, vcores=most.vcores, memory_used=used.memory, vcores_used=used.vcores
    )


def _call_skein(call: Callable[[], _T]) -> _T:
    """The result of a call of skein, its errors as ours."""
    try:
        return call()
    except (skein.exceptions.ConnectionError, skein.exceptions.TimeoutError) as error:
        raise ClusterUnreachable(f"skein's ApplicationMaster does not answer: {error}") from error
    except FileNotFoundError as error:
        raise NotFound(f"this container lacks skein's key pair: {error}") from error
    except ValueError as error:
        raise SpecError(f"skein refuses the request: {error}") from error
    except (skein.exceptions.SkeinError, KeyError) as error:
        raise ProtocolError(f"skein failed: {error}") from error
