"""Access: who asks, and what they may see and do."""

import hmac
from collections.abc import Iterable

from msgspec import Struct, structs

from afo.errors import NotFound, PermissionDenied
from afo.job import Acls
from afo.site.history import HistorySite
from afo_history_server.store.job_index import JobList


class Viewer(Struct, frozen=True, kw_only=True):
    """Who asks. `name` is '' for somebody unknown; an admin may see and do everything."""

    name: str = ""
    admin: bool = False
    #: By a header that no browser sends on its own, so no other site can have made the request.
    by_token: bool = False

    @property
    def known(self) -> bool:
        """It is known who asks."""
        return bool(self.name)


class Access:
    """The rules of one server. `token` is what its own user signs in with as `user`; '' where nobody can.

    `proxy_secret`: what a reverse proxy proves itself by beside its address; '' where that is enough.
    """

    def __init__(self, site: HistorySite, user: str, token: str = "", proxy_secret: str = "") -> None:
        self.site = site
        self._user, self._token, self._proxy_secret = user, token, proxy_secret

    def viewer_of_token(self, token: str) -> Viewer | None:
        """Who signs in with it; the server acts with this user's rights anyway."""
        right = bool(self._token) and hmac.compare_digest(token.encode(), self._token.encode())
        return Viewer(name=self._user, admin=True, by_token=True) if right else None

    def viewer_of_name(self, name: str) -> Viewer:
        """Somebody whom a session or a reverse proxy has named."""
        own = name == self._user and self.site.auth != "proxy"
        return Viewer(name=name, admin=own or name in self.site.admins)

    def is_proxy(self, address: str, secret: str) -> bool:
        """Is a request from there one that a reverse proxy of the site passes on?"""
        return address in self.site.proxies and hmac.compare_digest(secret.encode(), self._proxy_secret.encode())

    @property
    def open(self) -> bool:
        """Whoever connects may see everything."""
        return self.site.auth == "none"

    def may_view(self, viewer: Viewer, owner: str, acls: Acls) -> bool:
        """May they see a job?"""
        return self.open or self.may_modify(viewer, owner, acls) or acls.may_view(viewer.name)

    def may_modify(self, viewer: Viewer, owner: str, acls: Acls) -> bool:
        """May they act on a job?"""
        return viewer.known and (viewer.admin or viewer.name == owner or acls.may_modify(viewer.name))

    def visible(self, jobs: JobList, viewer: Viewer) -> JobList:
        """The part of the list that they may see."""
        if self.open or viewer.admin:
            return jobs
        lines = tuple(line for line in jobs.lines if self.may_view(viewer, line.job.user, line.job.acls))
        return structs.replace(jobs, lines=lines)

    def check_view(self, viewer: Viewer, jobs: Iterable[tuple[str, str, Acls]]) -> None:
        """Of (id, owner, acls). Raises `NotFound`, as for a job that is not there: ids alone say nothing."""
        for job_id, owner, acls in jobs:
            if not self.may_view(viewer, owner, acls):
                raise NotFound(f"there is no job {job_id} that {viewer.name or 'somebody unknown'} may see")

    def check_modify(self, viewer: Viewer, job_id: str, owner: str, acls: Acls) -> None:
        """Raises `PermissionDenied`."""
        if not self.may_modify(viewer, owner, acls):
            raise PermissionDenied(
                f"{job_id} belongs to {owner or 'nobody known'}; {viewer.name} is neither its owner nor in its "
                "`acls.modify` nor an admin of this server"
            )
