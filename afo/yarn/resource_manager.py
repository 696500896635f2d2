"""YARN's ResourceManager over its REST interface: what can be asked without starting a JVM.

Formats: https://hadoop.apache.org/docs/r3.4.1/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html; unknown fields
are ignored, so other Hadoop 3 versions answer too. Memory in MiB, times in seconds.
"""

import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied
from afo.formats.decoding import UNDECODABLE
from afo.hadoop import conf, delegation_tokens
from afo.hadoop.spnego import Negotiation
from afo.process.hosts import host_port
from afo.yarn.queues import Queue, Resource, Scheduler, convert_answer, leaves

_T = TypeVar("_T")
_CALL_S = 10.0
_VARIABLE = re.compile(r"\$\{([^}]+)\}")

#: States in which an application will change no more.
FINAL_STATES = frozenset({"FINISHED", "FAILED", "KILLED"})
#: States before an Application Master runs.
WAITING_STATES = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")


class Application(Struct, frozen=True, kw_only=True):
    """An application as YARN sees it; times are milliseconds since 1970, 0 for what has not happened."""

    id: str
    user: str
    name: str
    queue: str
    state: str
    final_status: str = field(name="finalStatus")
    progress: float = 0.0
    diagnostics: str = ""
    tags: str = field(name="applicationTags", default="")
    started_ms: int = field(name="startedTime", default=0)
    finished_ms: int = field(name="finishedTime", default=0)
    tracking_url: str = field(name="trackingUrl", default="")
    am_logs: str = field(name="amContainerLogs", default="")
    allocated_memory: int = field(name="allocatedMB", default=0)
    running_containers: int = field(name="runningContainers", default=0)
    memory_seconds: int = field(name="memorySeconds", default=0)
    vcore_seconds: int = field(name="vcoreSeconds", default=0)

    @property
    def over(self) -> bool:
        """It will change no more."""
        return self.state in FINAL_STATES


class ClusterNode(Struct, frozen=True, kw_only=True):
    """A machine that YARN may put containers on."""

    host: str = field(name="nodeHostName")
    state: str
    memory_used: int = field(name="usedMemoryMB")
    memory_free: int = field(name="availMemoryMB")
    vcores_used: int = field(name="usedVirtualCores")
    vcores_free: int = field(name="availableVirtualCores")
    labels: tuple[str, ...] = field(name="nodeLabels", default=())
    #: Why it is unhealthy.
    health: str = field(name="healthReport", default="")

    @property
    def memory(self) -> int:
        """All of it, MiB."""
        return self.memory_used + self.memory_free

    @property
    def vcores(self) -> int:
        """All of them."""
        return self.vcores_used + self.vcores_free


class Offer(NamedTuple):
    """What the cluster can give to a job now."""

    #: The largest container.
    largest: Resource
    nodes: list[ClusterNode]
    scheduler: Scheduler


class ResourceManager:
    """The ResourceManager at the first of `addresses` (`http://host:port`) that answers.

    Methods raise `ClusterUnreachable`, `NotFound`, `PermissionDenied` or `ProtocolError`; each takes 10 s at most for
    an address.
    """

    def __init__(self, addresses: tuple[str, ...], user: str = "") -> None:
        self._addresses = addresses
        self._as_user = f"?user.name={urllib.parse.quote(user)}" if user else ""
        # Never through a proxy: clusters lie inside.
        handlers = urllib.request.ProxyHandler({}), Negotiation(delegation_tokens.RESOURCE_MANAGER)
        self._open = urllib.request.build_opener(*handlers).open

    def nodes(self) -> list[ClusterNode]:
        """Machines that run containers now."""
        return [node for node in self.all_nodes() if node.state == "RUNNING"]

    def all_nodes(self) -> list[ClusterNode]:
        """Machines that it knows, lost and unhealthy ones too."""
        return self._list("nodes", "node", ClusterNode)

    def queues(self) -> list[Queue]:
        """Leaf queues; empty for a scheduler without any."""
        return self.scheduler().queues

    def scheduler(self) -> Scheduler:
        """What it says of itself."""
        info: dict[str, Any] = self._get("scheduler").get("scheduler", {}).get("schedulerInfo", {})
        return Scheduler(list(leaves(info.get("rootQueue", info))), info.get("type") == "fairScheduler")

    def offer(self) -> Offer:
        """What it can give now."""
        return Offer(self.largest_container(), self.nodes(), self.scheduler())

    def largest_container(self) -> Resource:
        """The largest container that the scheduler gives, its own limits and the present nodes considered.

        YARN says this only with the id of a new application, which is left unused. Where it demands Kerberos, but not
        of its web interface, nobody gets one there: the largest node is the answer, and YARN refuses later.
        """
        try:
            answer = self._request("POST", f"apps/new-application{self._as_user}", b"")
        except PermissionDenied:
            nodes = self.nodes()
            return Resource(memory=max((node.memory for node in nodes), default=0),
                            vcores=max((node.vcores for node in nodes), default=0))  # fmt: skip
        return convert_answer(answer.get("maximum-resource-capability"), Resource)

    def application(self, application_id: str) -> Application:
        """One application."""
        return convert_answer(self._get(f"apps/{application_id}").get("app"), Application)

    def applications(self, tag: str) -> list[Application]:
        """Those that YARN remembers and that bear `tag`."""
        return self._list(f"apps?applicationTags={urllib.parse.quote(tag)}", "app", Application)

    def waiting_in(self, queue: Queue) -> int:
        """How many applications of a queue wait for their Application Master's container."""
        found = self._list(f"apps?states={','.join(WAITING_STATES)}", "app", Application)
        return sum(application.queue in (queue.path, queue.name) for application in found)

    def kill(self, application_id: str) -> None:
        """Ask for the end of an application; returns before it is over. No-op for one that is."""
        if not self.application(application_id).over:
            self._request("PUT", f"apps/{application_id}/state{self._as_user}", b'{"state": "KILLED"}')

    def _list(self, path: str, key: str, kind: type[_T]) -> list[_T]:
        wrapped = next(iter(self._get(path).values()), None)
        # Nothing found is written `{"apps": null}`, `{"apps": {}}` or `{"apps": ""}`, by version.
        return convert_answer(wrapped.get(key, []) if isinstance(wrapped, dict) else [], list[kind])  # type: ignore[valid-type]

    def _get(self, path: str) -> dict[str, Any]:
        return self._request("GET", path, None)

    def _request(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        last = ClusterUnreachable("no ResourceManager is configured")
        for address in self._addresses:
            try:
                return self._ask(f"{address}/ws/v1/cluster/{path}", method, body)
            except ClusterUnreachable as error:
                last = error
        raise last

    def _ask(self, url: str, method: str, body: bytes | None) -> dict[str, Any]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with self._open(request, timeout=_CALL_S) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            with error:
                raise _translate_error(url, error) from error
        except PermissionDenied:
            raise
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise ClusterUnreachable(f"the ResourceManager at {url} does not answer: {reason}") from error
        return _object(text, url)


def from_configuration(user: str = "") -> ResourceManager:
    """The ResourceManager that `$HADOOP_CONF_DIR` names. Raises `ClusterUnreachable` where none is configured."""
    return ResourceManager(web_addresses(_Settings()), user)


class _Settings(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return conf.setting(name) or ""


def web_addresses(settings: Mapping[str, str]) -> tuple[str, ...]:
    """`http(s)://host:port` of every ResourceManager in `settings`, which gives '' for what is not set.

    Raises `ClusterUnreachable` when there is none: Hadoop would fall back to 0.0.0.0, which is nowhere.
    """
    secure = settings["yarn.http.policy"] == "HTTPS_ONLY"
    ids = [name.strip() for name in settings["yarn.resourcemanager.ha.rm-ids"].split(",") if name.strip()]
    found = [_web_address(settings, secure, f".{rm_id}") for rm_id in ids] or [_web_address(settings, secure, "")]
    if not all(found):
        raise ClusterUnreachable(
            f"no ResourceManager is configured in {conf.conf_dir() or '$HADOOP_CONF_DIR (not set)'}: "
            "yarn-site.xml has neither yarn.resourcemanager.webapp.address nor yarn.resourcemanager.hostname; "
            "point HADOOP_CONF_DIR at a cluster's configuration, or start one with `afo cluster start`"
        )
    return tuple(f"{'https' if secure else 'http'}://{address}" for address in found)


def _web_address(settings: Mapping[str, str], secure: bool, suffix: str) -> str:
    key, port = ("webapp.https.address", 8090) if secure else ("webapp.address", 8088)
    if address := settings[f"yarn.resourcemanager.{key}{suffix}"]:
        # A plain address may borrow the host's name: ${yarn.resourcemanager.hostname}:8088
        return _VARIABLE.sub(lambda match: settings[match.group(1)], address)
    host = settings[f"yarn.resourcemanager.hostname{suffix}"]
    return host_port(host, port) if host else ""


def _object(text: bytes, url: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except UNDECODABLE as error:
        # A standby ResourceManager and a stranger's web server answer with a page.
        raise ClusterUnreachable(f"{url} answers, but not as a ResourceManager does: {error}") from error


def _translate_error(url: str, error: urllib.error.HTTPError) -> AfoError:
    try:
        words = msgspec.json.decode(error.read())["RemoteException"]["message"]
    except (*UNDECODABLE, KeyError, TypeError):
        if error.code == 401:
            return PermissionDenied(f"{url} takes neither token nor ticket of this process: HTTP 401 {error.reason}")
        return ClusterUnreachable(f"{url} answers, but not as a ResourceManager does: HTTP {error.code} {error.reason}")
    kind = {401: PermissionDenied, 403: PermissionDenied, 404: NotFound}.get(error.code, ClusterUnreachable)
    return kind(f"the ResourceManager refuses {url}: {words} (HTTP {error.code})")
