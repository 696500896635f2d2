"""The machines that jobs run on, as they are now."""

import ipaddress
import socket
import threading
from collections.abc import Iterable, Sequence, Set

from flask import Blueprint, render_template
from msgspec import Struct, structs

from afo.errors import AfoError, ClusterUnreachable
from afo.hadoop import conf
from afo.site.config import user_name
from afo.yarn import resource_manager
from afo.yarn.queues import Queue
from afo.yarn.resource_manager import ClusterNode
from afo_history_server.model.job_history import JobHistory
from afo_history_server.store.fair_share import choose_fairly
from afo_history_server.store.job_store import JobStore
from afo_history_server.views.nodes import ClusterView, cluster_view, hosts_of
from afo_history_server.web import query
from afo_history_server.web.authentication import visible

#: Jobs that run and are looked at, the newest ones, by fair shares of the users that they belong to.
MAX_JOBS = 200
#: What was seen is shown again for so long, whoever asks.
FRESH_S = 5.0
#: Names that are looked up at one look: a name server that is away lets each wait.
_MOST_LOOKUPS = 8


class Seen(Struct, frozen=True, kw_only=True):
    """Jobs that run, and what the ResourceManager said of its nodes and queues, or why it did not.

    Nothing of YARN where none is configured. `called`: a machine by the address that tasks name → its name in YARN.
    `left_out` more jobs run and were not looked at.
    """

    jobs: tuple[JobHistory, ...]
    left_out: int
    nodes: tuple[ClusterNode, ...] = ()
    queues: tuple[Queue, ...] = ()
    called: dict[str, str] = {}
    asked: float
    problem: str = ""


class AskedCluster(Struct, frozen=True, kw_only=True):
    """The machines, as far as who asks may see the jobs on them."""

    view: ClusterView
    seen: Seen


class LiveCluster:
    """Looks at jobs and asks YARN at most every `FRESH_S`. While one thread does, others get what was seen before."""

    def __init__(self, store: JobStore) -> None:
        self._store, self._lock = store, threading.Lock()
        self._last: Seen | None = None
        #: Address of a machine → its names, none where there are none.
        self._names: dict[str, frozenset[str]] = {}

    def now(self) -> Seen:
        """Raises what `JobStore.jobs` raises."""
        last = self._last
        if last is not None and (self._is_fresh(last) or not self._lock.acquire(blocking=False)):
            return last
        if last is None:
            self._lock.acquire()
        try:
            # While this thread waited, another one may have looked.
            if self._last is None or not self._is_fresh(self._last):
                self._last = self._look()
            return self._last
        finally:
            self._lock.release()

    def _is_fresh(self, seen: Seen) -> bool:
        return 0 <= self._store.clock() - seen.asked < FRESH_S

    def _look(self) -> Seen:
        running = [job.job_id for job in self._store.jobs().jobs if not job.ended and not job.problem]
        wanted = choose_fairly(running, self._store.owner, MAX_JOBS)
        jobs, now = tuple(_read_jobs(self._store, wanted)), self._store.clock()
        seen = Seen(jobs=jobs, left_out=len(running) - len(wanted), asked=now)
        if conf.conf_dir() is None:
            return seen
        try:
            manager = resource_manager.from_configuration(user_name())
            nodes, queues = tuple(manager.all_nodes()), tuple(manager.queues())
        except AfoError as error:
            return structs.replace(seen, problem=str(error))
        return structs.replace(seen, nodes=nodes, queues=queues, called=self._resolve_names(hosts_of(jobs), nodes))

    def _resolve_names(self, hosts: Set[str], nodes: Sequence[ClusterNode]) -> dict[str, str]:
        """Where tasks and YARN name all machines alike, no name is looked up."""
        known = {node.host for node in nodes}
        addresses = sorted(filter(_is_address, hosts - known)) if known else []
        for address in [address for address in addresses if address not in self._names][:_MOST_LOOKUPS]:
            self._names[address] = _names_of(address)
        self._names = {address: self._names[address] for address in addresses if address in self._names}
        found = ((address, known & names) for address, names in self._names.items())
        return {address: min(names) for address, names in found if names}


def cluster_blueprint(store: JobStore, cluster: LiveCluster) -> Blueprint:
    """The route over one store."""
    routes = Blueprint("cluster", __name__)

    @routes.get("/nodes")
    def nodes() -> str:
        asked = query_cluster(store, cluster)
        return render_template("nodes.html", seen=asked.seen, view=asked.view, now=store.clock())

    return routes


def query_cluster(store: JobStore, cluster: LiveCluster) -> AskedCluster:
    """Of the jobs that who asks may see. Raises `UsageError` and what `JobStore.jobs` raises."""
    query.require_known(())
    seen, may_see = cluster.now(), {job.job_id for job in visible(store.jobs()).jobs}
    jobs = [job for job in seen.jobs if job.job_id in may_see]
    return AskedCluster(view=cluster_view(jobs, seen.nodes, seen.queues, seen.called), seen=seen)


def _read_jobs(store: JobStore, job_ids: Iterable[str]) -> list[JobHistory]:
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


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _names_of(address: str) -> frozenset[str]:
    try:
        name, others, _ = socket.gethostbyaddr(address)
    except OSError:
        return frozenset()
    return frozenset((name, *others))
