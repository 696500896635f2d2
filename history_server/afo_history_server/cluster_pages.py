"""The machines that jobs run on, as they are now."""

import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence, Set
from functools import lru_cache

from flask import Blueprint, render_template
from msgspec import Struct

from afo import resource_manager
from afo.config import user_name
from afo.errors import AfoError, ClusterUnreachable
from afo.resource_manager import ClusterNode
from afo.storage import hadoop_conf
from afo.yarn_queues import Queue
from afo_history_server import query
from afo_history_server.cluster_view import ClusterView, cluster_view, hosts_of
from afo_history_server.job_history import JobHistory
from afo_history_server.job_index import JobList
from afo_history_server.job_store import JobStore
from afo_history_server.signing_in import visible

#: Jobs that run and are looked at, the newest ones.
MAX_JOBS = 200
#: What YARN said is shown again for so long, whoever asks.
FRESH_S = 5.0


class Yarn(Struct, frozen=True, kw_only=True):
    """What the ResourceManager said at a moment, or why it did not; nothing where none is configured."""

    nodes: tuple[ClusterNode, ...] = ()
    queues: tuple[Queue, ...] = ()
    asked: float
    problem: str = ""


class AskedCluster(Struct, frozen=True, kw_only=True):
    """The machines; `left_out` more jobs run and are not looked at."""

    view: ClusterView
    asked: float
    problem: str
    left_out: int


class AskedYarn:
    """Asks the ResourceManager at most every `FRESH_S`. While one thread asks, others get the answer before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last: Yarn | None = None

    def now(self) -> Yarn:
        """What it says; never raises."""
        last = self._last
        if last is not None and 0 <= self._clock() - last.asked < FRESH_S:
            return last
        if not self._lock.acquire(blocking=last is None):
            return last or self.now()
        try:
            self._last = self._ask()
            return self._last
        finally:
            self._lock.release()

    def _ask(self) -> Yarn:
        if hadoop_conf.conf_dir() is None:
            return Yarn(asked=self._clock())
        try:
            manager = resource_manager.from_configuration(user_name())
            return Yarn(
                nodes=tuple(manager.all_nodes()), queues=tuple(manager.queues()), asked=self._clock(),
            )  # fmt: skip
        except AfoError as error:
            return Yarn(asked=self._clock(), problem=str(error))


def cluster_blueprint(store: JobStore, yarn: AskedYarn) -> Blueprint:
    """The route over one store."""
    routes = Blueprint("cluster", __name__)

    @routes.get("/nodes")
    def nodes() -> str:
        asked = asked_cluster(store, yarn)
        return render_template("nodes.html", asked=asked, view=asked.view, now=store.clock())

    return routes


def asked_cluster(store: JobStore, yarn: AskedYarn) -> AskedCluster:
    """Of the jobs that who asks may see. Raises `UsageError` and what `JobStore.jobs` raises."""
    query.known(())
    running = _running(visible(store.jobs()))
    jobs = _looked_at(store, running[:MAX_JOBS])
    said = yarn.now()
    names = called(hosts_of(jobs), said.nodes)
    return AskedCluster(
        view=cluster_view(jobs, said.nodes, said.queues, names), asked=said.asked, problem=said.problem,
        left_out=len(running) - MAX_JOBS if len(running) > MAX_JOBS else 0,
    )  # fmt: skip


def called(hosts: Set[str], nodes: Sequence[ClusterNode]) -> dict[str, str]:
    """A machine that tasks name by its address → its name in YARN; where all are named alike, no name is resolved."""
    unknown = hosts - {node.host for node in nodes}
    addresses = {host for host in unknown if _is_address(host)}
    if not addresses:
        return {}
    by_address = {_address_of(node.host): node.host for node in nodes}
    return {address: by_address[address] for address in addresses & by_address.keys()}


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def _address_of(host: str) -> str:
    """'' for a name that has none."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return ""


def _running(found: JobList) -> list[str]:
    return [job.job_id for job in found.jobs if not job.ended and not job.problem]


def _looked_at(store: JobStore, job_ids: Sequence[str]) -> list[JobHistory]:
    """A job that cannot be read now is left out; the list says why."""
    jobs = []
    for job_id in job_ids:
        try:
            job, _ = store.job(job_id)
        except ClusterUnreachable:
            raise
        except AfoError:
            continue
        if not job.ended:
            jobs.append(job)
    return jobs
