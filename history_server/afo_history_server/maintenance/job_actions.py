"""Actions on jobs from the pages: end one, have it save, delete one that has ended."""

import logging
from contextlib import closing

from msgspec import Struct, structs

from afo import storage
from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, UsageError
from afo.job.paths import JobPaths
from afo.job_dir import annotations as an
from afo.job_dir import forced_end
from afo.protocol.profile_request import MAX_S
from afo.rpc import messages as m
from afo.rpc.client import AmClient
from afo.rpc.master import Master
from afo.site.user_state import UserState
from afo.yarn import resource_manager
from afo_history_server.model.job_history import JobHistory
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_store import JobStore
from afo_history_server.store.live_job import read_annotations

#: Seconds that an Application Master has to answer.
_PATIENCE_S = 5.0
#: A directory that is being deleted gets this before its name, by which nobody takes it for a job any more.
DELETED = "deleted-"
_LOG = logging.getLogger(__name__)


class Order(Struct, frozen=True, kw_only=True):
    """An action on a job: by whom, and why."""

    job: JobHistory
    user: str
    reason: str = ""
    #: Of a profile: `worker:0`, and for how long.
    task: str = ""
    seconds: float = 0.0
    #: What is to stand there, None for what it is; tags as lines of `key=value`. `version`: of what they were made.
    notes: str | None = None
    tags: str | None = None
    version: str = ""


class JobActions:
    """Acts with the secrets of the user who runs the server; a job of another user is ended through YARN.

    Methods raise `UsageError` for a job whose state does not allow it, `PermissionDenied` where this server does not
    hold what it takes, and what the job or the cluster answers.
    """

    def __init__(self, store: JobStore, secrets: UserState) -> None:
        self._store, self._secrets = store, secrets

    def kill(self, order: Order) -> None:
        """Ask for the end; returns before it is over."""
        _must_run(order.job)
        try:
            with closing(self._master(order.job.job_id)) as master:
                master.kill(m.KillRequest(user=order.user, reason=order.reason))
        except (ClusterUnreachable, PermissionDenied, NotFound) as error:
            if order.job.runtime != "yarn":
                raise
            _LOG.info("%s is ended through YARN: %s", order.job.job_id, error)
            self._keep_reason(order)
            resource_manager.from_configuration(order.user).kill(order.job.job_id)
        _audit("kill", order)

    def _keep_reason(self, order: Order) -> None:
        """For the verdict of a job whose Application Master was not asked (`vanished`)."""
        url = self._store.paths(order.job.job_id).kill
        try:
            self._store.files.delete(url)  # of one who asked before, and in vain
            self._store.files.create(url, forced_end.encode(order.user, order.reason))
        except AfoError as error:  # another user's job
            _LOG.warning("why %s is ended cannot be kept with it: %s", order.job.job_id, error)

    def checkpoint(self, order: Order) -> None:
        """Ask the chief to save at its next step; returns before it has."""
        _must_run(order.job)
        with closing(self._master(order.job.job_id)) as master:
            master.give_order(m.OrderRequest(user=order.user, kind="checkpoint"))
        _audit("checkpoint", order)

    def profile(self, order: Order) -> None:
        """Ask a live task for a profile; returns before it is taken."""
        _must_run(order.job)
        live = [
            attempt
            for attempt in order.job.attempts
            if attempt.name == order.task and attempt.registered and not attempt.ended
        ]
        if not live or not 0 < order.seconds <= MAX_S:
            raise UsageError(
                f"a profile of {order.task[:40]!r} for {order.seconds:g} s; allowed is a task that runs, like "
                f"worker:0, and up to {MAX_S:g} s"
            )
        request = m.OrderRequest(
            user=order.user, kind="profile", role=live[0].role, index=live[0].index, argv=(f"{order.seconds:g}",)
        )
        with closing(self._master(order.job.job_id)) as master:
            master.give_order(request)
        _audit("profile", order)

    def annotate(self, order: Order) -> None:
        """Write notes and tags to a job, ended or not."""
        paths = self._store.paths(order.job.job_id)
        known, problem = read_annotations(self._store.files, paths)
        if problem:
            raise UsageError(f"{problem}; delete it to write notes and tags again")
        if order.version not in ("", known.version()):
            raise UsageError(
                f"notes and tags of {paths.job_id} were changed by somebody else since; load its page again, and "
                "write into what stands there now"
            )
        notes = known.notes if order.notes is None else order.notes.replace("\r\n", "\n").strip()
        tags = known.tags if order.tags is None else _tags(order.tags)
        now = an.check_limits(an.Annotations(notes=notes, tags=tags))
        if tags == order.job.tags and known.tags is None:
            now = structs.replace(now, tags=None)
        self._store.files.replace(paths.annotations, an.encode(now))
        self._store.reread(paths.job_id)
        _audit("annotate", order)

    def delete(self, order: Order) -> None:
        """Remove the job's directory. It vanishes from the list at once, even if the rest takes long or fails."""
        job_id = order.job.job_id
        if not order.job.ended:
            raise UsageError(f"{job_id} is {order.job.state}; only a job that has ended can be deleted")
        remove_job(self._store.files, self._store.paths(job_id))
        self._store.forget(job_id)
        _audit("delete", order)

    def _master(self, job_id: str) -> Master:
        secret = self._secrets.secret(job_id)
        if secret is None:
            raise PermissionDenied(
                f"the secret of {job_id} is not here, so its Application Master takes no order from this server; "
                "who submitted it can use `afo kill` and `afo checkpoint now`"
            )
        return Master(AmClient(self._store.paths(job_id).address, secret, patience_s=_PATIENCE_S))


def remove_job(files: JobFiles, paths: JobPaths) -> None:
    """Delete a job's directory; a job of that id is gone before the first file is. Raises what `afo.storage` raises."""
    if not files.has_dir(paths.dir):
        raise NotFound(f"there is no job {paths.job_id} in {paths.root}")
    aside = storage.join(paths.root, DELETED + paths.job_id)
    files.delete(aside)  # what an earlier try left
    storage.rename(paths.dir, aside)  # of a link that has just taken its place the link itself
    files.delete(aside)


def _tags(lines: str) -> dict[str, str]:
    """Of `key=value` a line. Raises `UsageError`."""
    given = [line.strip() for line in lines.splitlines() if line.strip()]
    found = {}
    for key, equals, value in (line.partition("=") for line in given):
        if not equals or key.strip() in found:
            raise UsageError(
                f"tag {key[:80]!r} {'stands there twice' if equals else 'has no value'}; allowed is key=value"
            )
        found[key.strip()] = value.strip()
    return found


def _must_run(job: JobHistory) -> None:
    if job.ended:
        raise UsageError(f"{job.job_id} has ended: it is {job.state}")


def _audit(action: str, order: Order) -> None:
    _LOG.info("%s of %s by %r, reason %r", action, order.job.job_id, order.user, order.reason)
