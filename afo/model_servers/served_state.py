"""State of a model server and its models, the answer of `GET /v1/models`. Newer servers may say more."""

from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

#: Characters of a text that a server says; of a longer one the first are kept.
MOST_TEXT = 500
#: State of a version that is newer than the one that answers, and that a pin or a canary comes before.
WAITING = "WAITING"
_Label = Annotated[str, Meta(max_length=MOST_TEXT)]


def shortened(text: str) -> str:
    """The text as it may be shown."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


class _Said(Struct, frozen=True, kw_only=True):
    """Its texts are shortened: a page shows thousands of them."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if isinstance(value := getattr(self, name), str) and len(value) > MOST_TEXT:
                force_setattr(self, name, shortened(value))


class ServedVersion(_Said, frozen=True, kw_only=True):
    """A version, and the requests that it answered. None: not known, or nothing measured yet."""

    version: int
    state: str = ""
    #: Why it is in this state, if that is not as usual.
    message: str = ""
    step: int | None = None
    #: When the newest gradient in it was applied, seconds since 1970.
    newest_gradient: float | None = None
    loaded_at: float | None = None
    #: Versions whose tables it stands on, with itself.
    layers: int | None = None
    table_bytes: int | None = None
    shared_table_bytes: int | None = None
    requests: int = 0
    errors: int = 0
    requests_per_second: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    #: Time of a core that a request takes.
    core_ms: float | None = None


class Canary(_Said, frozen=True, kw_only=True):
    """A version that answers some of the requests until it is promoted or rejected."""

    version: int
    traffic_percent: float = 0.0
    since: float | None = None
    requests: int = 0
    error_rate: float | None = None
    latency_ratio: float | None = None
    score_psi: float | None = None
    #: How long it goes on at least, and of how many requests; None: of an older server.
    duration_seconds: float | None = None
    min_requests: int | None = None
    #: What its end waits for now.
    waits: str = ""


class Mirror(_Said, frozen=True, kw_only=True):
    """A version that computes a copy of some requests, and answers nobody."""

    label: str = ""
    percent: float = 0.0
    requests: int = 0
    dropped: int = 0
    errors: int = 0
    score_psi: float | None = None


class Rejected(_Said, frozen=True, kw_only=True):
    """A version that is not served any more, and why."""

    version: int
    at: float | None = None
    reason: str = ""


class ServedModel(_Said, frozen=True, kw_only=True):
    """A model and its versions, the newest first."""

    name: str
    base_path: str = ""
    #: Whose answers requests get that name no version.
    serving_version: int | None = None
    pinned: bool = False
    #: The version that an operator holds; another one answers where it is gone. None: not pinned, or an older server.
    pinned_version: int | None = None
    canary: Canary | None = None
    #: Percent of the requests by label.
    split: Annotated[dict[_Label, float], Meta(max_length=100)] | None = None
    mirror: Mirror | None = None
    rejected: tuple[Rejected, ...] = ()
    requests_per_second: float = 0.0
    #: Newer versions that wait for a pin or a canary to end; `versions` has the newest of them.
    waiting: int = 0
    versions: tuple[ServedVersion, ...] = ()

    @property
    def lost_pin(self) -> int | None:
        """The pinned version, where another one answers, or none."""
        return self.pinned_version if self.pinned_version != self.serving_version else None

    @property
    def unlisted(self) -> int:
        """How many of those that wait `versions` has not."""
        return max(0, self.waiting - sum(each.state == WAITING for each in self.versions))

    def is_rejected(self, version: int) -> bool:
        """Whether a version is not taken up by itself."""
        return any(each.version == version for each in self.rejected)

    @property
    def serving(self) -> ServedVersion | None:
        """The version of `serving_version`."""
        return next((each for each in self.versions if each.version == self.serving_version), None)


class PassedOver(_Said, frozen=True, kw_only=True):
    """A version that could not be loaded, so that a call took another one."""

    version: int
    reason: str = ""


class SteeredModel(ServedModel, frozen=True, kw_only=True):
    """A model after a call, the answer of `NAME:promote` and `NAME:rollback`."""

    passed_over: tuple[PassedOver, ...] = ()


class ModelServerState(_Said, frozen=True, kw_only=True):
    """A server."""

    name: str = ""
    pid: int = 0
    started_at: float | None = None
    grpc: str | None = None
    rest: str | None = None
    models: tuple[ServedModel, ...] = field(default=())
