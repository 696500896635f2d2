"""The section `history` of `afo-site.yaml`: what a site says of its history server."""

import ipaddress
import re
from typing import Annotated, Literal

from msgspec import Meta

from afo.errors import UsageError
from afo.formats.units import Duration, Memory
from afo.job import Section
from afo.job.section import PositiveInt
from afo.model_servers.control_client import parse_address

LOOPBACK = "127.0.0.1"
#: Each is asked by a thread of its own.
MOST_MODEL_SERVERS = 32
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_HEADER = re.compile(r"[A-Za-z0-9-]+")


class Keep(Section, frozen=True):
    """Which ended jobs stay, by all three; nothing is deleted where nothing is said."""

    age: Annotated[Duration | None, Meta(description="Deleted so long after they ended.")] = None
    jobs: Annotated[PositiveInt | None, Meta(description="So many stay: the newest, by fair shares of users.")] = None
    bytes: Annotated[
        Memory | None,
        Meta(description="The oldest are deleted while all together are larger, of the user first who has most."),
    ] = None


class HistorySite(Section, frozen=True):
    """The history server of a site."""

    directory: Annotated[
        str, Meta(description="Directory of all jobs that it shows; `jobs_root` of the runtime if left out.")
    ] = ""
    listen: Annotated[str, Meta(description="IP address; beyond 127.0.0.1 only with `auth`.")] = LOOPBACK
    auth: Annotated[
        Literal["none", "token", "proxy"],
        Meta(description="`none`: whoever connects sees everything. `token`: `afo history login` for everything. "
             "`proxy`: a reverse proxy says in a header who asks."),
    ] = "none"  # fmt: skip
    user_header: Annotated[str, Meta(description="Of `proxy`.")] = "X-Forwarded-User"
    proxies: Annotated[tuple[str, ...], Meta(description="IP addresses of the reverse proxies.")] = ()
    proxy_secret_file: Annotated[
        str,
        Meta(description="File with a secret that the proxies send in `X-Afo-Proxy-Secret`; needed where one of them "
             "is on this machine."),
    ] = ""  # fmt: skip
    name: Annotated[str, Meta(description="Host name by which browsers reach it; 127.0.0.1 if left out.")] = ""
    tensorboard_name: Annotated[
        str, Meta(description="Another host name of the same server, under which TensorBoard is shown.")
    ] = ""
    https: Annotated[bool, Meta(description="Browsers reach `name` by https alone.")] = False
    admins: Annotated[tuple[str, ...], Meta(description="Users who may see and do everything.")] = ()
    keep: Keep = Keep()
    model_servers: Annotated[
        tuple[str, ...],
        Meta(max_length=MOST_MODEL_SERVERS, description="Model servers whose versions it shows, `http://HOST:8501`."),
    ] = ()
    model_servers_token_file: Annotated[
        str, Meta(description="File with a token that all of `model_servers` take; nobody else may read it.")
    ] = ""

    def __post_init__(self) -> None:
        for key, address in (("listen", self.listen), *(("proxies", proxy) for proxy in self.proxies)):
            try:
                given = ipaddress.ip_address(address)
            except ValueError:
                raise ValueError(f"`{key}`: {address!r} is no IP address") from None
            # Connections bear the short form, and what is said of 127.0.0.1 below must hold of all its forms.
            plain = getattr(given, "ipv4_mapped", None) or given
            if str(plain) != address:
                raise ValueError(f"`{key}`: write {address!r} as {plain}")
        for address in self.model_servers:
            try:
                parse_address(address)
            except UsageError as error:
                raise ValueError(f"`model_servers`: {error}") from error
        for key in ("name", "tensorboard_name"):
            if getattr(self, key) and not _NAME.fullmatch(getattr(self, key)):
                raise ValueError(f"`{key}` is {getattr(self, key)!r}; a host name without a port, in small letters")
        if not _HEADER.fullmatch(self.user_header):
            raise ValueError(f"`user_header` is {self.user_header!r}; letters, digits and `-`")
        self._check_reach()

    @property
    def browser_address(self) -> str:
        """Where browsers reach a server behind TLS; '' where it is reached as it listens."""
        return f"https://{self.name}/" if self.https else ""

    def _check_reach(self) -> None:
        if self.auth == "none" and (self.listen != LOOPBACK or self.name):
            raise ValueError("`listen` and `name` beyond this machine need `auth: token` or `auth: proxy`")
        if self.listen != LOOPBACK and not self.name:
            raise ValueError("`listen` beyond this machine needs `name`: a request for any other name is refused")
        if (self.auth == "proxy") != bool(self.proxies):
            raise ValueError("`auth: proxy` and `proxies` need each other")
        if self.proxy_secret_file and self.auth != "proxy":
            raise ValueError("`proxy_secret_file` needs `auth: proxy`")
        for address in map(ipaddress.ip_address, self.proxies):
            if (address.is_loopback or str(address) == self.listen) and not self.proxy_secret_file:
                raise ValueError(f"`proxies` names {address}, from where each program of this machine can say who "
                                 "asks: it needs `proxy_secret_file`")  # fmt: skip
        if self.https and not self.name:
            raise ValueError("`https` needs `name`")
        if bool(self.tensorboard_name) != bool(self.name) or (self.name and self.name == self.tensorboard_name):
            raise ValueError("`name` and `tensorboard_name` need each other, and differ: what TensorBoard shows must "
                             "not act as the pages do")  # fmt: skip
