"""Hosts of the attempts of tasks, out of the event log."""

from afo.events import event_log
from afo.events import types as ev
from afo.rpc.messages import TaskId


class TaskHosts:
    """Takes the records of a log in their order."""

    def __init__(self) -> None:
        self._hosts: dict[TaskId, str] = {}

    def take(self, record: event_log.Record | event_log.UnknownRecord) -> None:
        """Note the host, if the record names one."""
        match record:
            case event_log.Record(event=(ev.ContainerRunning() | ev.TaskRegistered()) as event):
                self._hosts[event.task] = event.host

    def of(self, task: TaskId) -> str:
        """The host of an attempt; '' if it has had no container yet."""
        return self._hosts.get(task, "")
