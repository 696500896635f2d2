"""Configuration of a model server, `serving.yaml`: models and versions in TensorFlow Serving's terms, ports, limits."""

import os
import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from afo.formats.units import Duration, Memory
from afo.job.section import PositiveInt, Section
from afo_client.serving.rollout_config import Canary, Traffic, check_rollout, check_time

LOOPBACK = "127.0.0.1"
GRPC_PORT, REST_PORT = 8500, 8501
_HDFS = "hdfs://"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]*):(\d{1,5})")
#: Of protobuf, whose messages have sizes of 32 bits.
_MOST_MIB = 2047
_MOST_REQUESTS = 65536
_MOST_CONNECTIONS = 1 << 20
Threads = Annotated[int, Meta(ge=0, le=1024)]
Version = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Latest(Section, frozen=True):
    """The newest versions, by number."""

    num_versions: PositiveInt = 1


class All(Section, frozen=True):
    """Every version that is there."""


class Specific(Section, frozen=True):
    """Versions by number."""

    versions: Annotated[tuple[Version, ...], Meta(min_length=1, max_length=1000)]


class VersionPolicy(Section, frozen=True):
    """Which versions of a model are served; one of the three."""

    latest: Latest | None = None
    all: All | None = None
    specific: Specific | None = None

    def __post_init__(self) -> None:
        if sum(policy is not None for policy in (self.latest, self.all, self.specific)) != 1:
            raise ValueError("`model_version_policy` is one of `latest`, `all` and `specific`")


class ModelConfig(Section, frozen=True):
    """A model, and where its versions lie."""

    name: str
    base_path: Annotated[
        str,
        Meta(
            description="Directory of versions (`ctr/3/saved_model.pb`), or a SavedModel, which is the only one; here,"
            " or in HDFS: `hdfs://nameservice/models/ctr`."
        ),
    ]
    model_version_policy: VersionPolicy = VersionPolicy(latest=Latest())
    version_labels: Annotated[
        dict[str, Version], Meta(description="Versions by names that requests can use, `{stable: 3, canary: 4}`.")
    ] = field(default_factory=dict)
    reserved_concurrency: Annotated[
        int,
        Meta(
            ge=0,
            le=_MOST_REQUESTS,
            description="Requests of this model that are computed at once, whatever others are asked; 0: it shares"
            " what no model has reserved.",
        ),
    ] = 0
    canary: Canary | None = None
    traffic: Traffic | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"`name` is {self.name!r}; allowed: letters, digits, `.`, `_` and `-`, 128 at most")
        if "://" in self.base_path and not self.in_hdfs:
            raise ValueError(
                f"`base_path` is {self.base_path}; allowed: a directory here, or hdfs://NAMESERVICE/PATH; copy it there"
            )
        for label in self.version_labels:
            if not _NAME.fullmatch(label):
                raise ValueError(f"`version_labels` has {label!r}; allowed: letters, digits, `.`, `_` and `-`")
        check_rollout(self.canary, self.traffic, self.version_labels, self.model_version_policy.latest is not None)

    @property
    def in_hdfs(self) -> bool:
        """Whether the server copies it here."""
        return self.base_path.startswith(_HDFS)


class Endpoint(Section, frozen=True):
    """Where a server listens."""

    address: Annotated[str, Meta(description="Host and port; port 0: any free one; no host: all addresses.")]

    def __post_init__(self) -> None:
        found = _ADDRESS.fullmatch(self.address)
        if found is None or int(found[2]) > 65535:
            raise ValueError(f"`address` is {self.address!r}; write `127.0.0.1:8500`, `[::1]:8500` or `:8500`")


class Limits(Section, frozen=True):
    """What one request, and all at once, may take."""

    request_size: Annotated[Memory, Meta(description="Of a request, by gRPC or REST.")] = Memory(16)
    concurrent_requests: Annotated[
        int, Meta(ge=0, le=_MOST_REQUESTS, description="Computed at once; 0: twice as many as there are cores.")
    ] = 0
    queued_requests: Annotated[
        int,
        Meta(ge=0, le=_MOST_REQUESTS, description="Of one model, that wait; more are refused. 0: four times as many."),
    ] = 0
    request_timeout: Annotated[Duration, Meta(description="Of a request, waiting included.")] = Duration(10)
    connections: Annotated[
        int, Meta(ge=1, le=_MOST_CONNECTIONS, description="Open at one address; further ones are closed at once.")
    ] = 1000

    def __post_init__(self) -> None:
        if self.request_size > _MOST_MIB:
            raise ValueError(f"`request_size` is {self.request_size} MiB; a message of gRPC has {_MOST_MIB} at most")
        check_time("request_timeout", self.request_timeout, 0.001)


class ProcessorOptions(Section, frozen=True):
    """Threads that compute; keys of the processor's `model_config`."""

    intra_op_parallelism_threads: Threads = 0
    inter_op_parallelism_threads: Threads = 0
    enable_inline_execute: bool = True
    session_num: Annotated[int, Meta(ge=1, le=64, description="Groups of threads that take requests in turn.")] = 1
    select_session_policy: Literal["RR", "MOD"] = "RR"
    cpusets: Annotated[
        str, Meta(description="Processors of each group, `0-3;4-7`, or `auto`: divided among them; empty: any.")
    ] = ""


class Tls(Section, frozen=True):
    """TLS on both ports."""

    certificate: Annotated[str, Meta(description="File with the server's certificate and its chain, PEM.")]
    key: Annotated[str, Meta(description="File with its private key, PEM.")]
    client_ca: Annotated[
        str, Meta(description="File with the authorities whose clients may connect, PEM; left out: any client.")
    ] = ""


class Kerberos(Section, frozen=True):
    """Who reads HDFS, where that is not whoever the tickets of `kinit` are of."""

    principal: Annotated[str, Meta(min_length=1, description="`NAME@REALM`.")]
    keytab: Annotated[str, Meta(min_length=1, description="File with its key.")]


class ServingConfig(Section, frozen=True):
    """The content of `serving.yaml`."""

    models: Annotated[tuple[ModelConfig, ...], Meta(min_length=1, max_length=1000)]
    name: Annotated[str, Meta(description="Of the server, which tells it from others of this user here.")] = "default"
    grpc: Endpoint = Endpoint(address=f"{LOOPBACK}:{GRPC_PORT}")
    rest: Endpoint = Endpoint(address=f"{LOOPBACK}:{REST_PORT}")
    limits: Limits = Limits()
    processor: ProcessorOptions = ProcessorOptions()
    file_system_poll_wait: Annotated[Duration, Meta(description="Between looks for new versions.")] = Duration(1)
    shutdown_delay: Annotated[
        Duration, Meta(description="After SIGTERM: not ready, and answering still, until load balancers know.")
    ] = Duration(0)
    drain_timeout: Annotated[Duration, Meta(description="That requests under way have after SIGTERM; 0: none.")] = (
        Duration(30)
    )
    tls: Tls | None = None
    tokens_file: Annotated[
        str,
        Meta(
            description="File of lines `NAME TOKEN`, mode 0600; requests then need `Authorization: Bearer TOKEN`. With "
            "a third word `admin` a token may roll back and promote."
        ),
    ] = ""
    access_log: Annotated[str, Meta(description="File of one JSON object a request; `-`: standard output.")] = ""
    cache_directory: Annotated[
        str, Meta(description="Where models of HDFS are copied to; left out: `model-cache` of AFO's state directory.")
    ] = ""
    kerberos: Kerberos | None = None

    def __post_init__(self) -> None:
        if not SERVER_NAME.fullmatch(self.name):
            raise ValueError(f"`name` is {self.name!r}; allowed: letters, digits, `.`, `_` and `-`, 64 at most")
        check_time("file_system_poll_wait", self.file_system_poll_wait, 0.01)
        check_time("shutdown_delay", self.shutdown_delay, 0)
        check_time("drain_timeout", self.drain_timeout, 0)
        names = [model.name for model in self.models]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"`models` has {name!r} twice; a name is one model's")

    def relative_to(self, directory: str) -> "ServingConfig":
        """The same with absolute paths: of a file they are relative to its directory."""

        def absolute(path: str) -> str:
            there = not path or path == "-" or path.startswith(_HDFS)
            return path if there else os.path.join(directory, os.path.expanduser(path))

        tls = self.tls and Tls(**{name: absolute(getattr(self.tls, name)) for name in Tls.__struct_fields__})
        models = tuple(msgspec.structs.replace(model, base_path=absolute(model.base_path)) for model in self.models)
        kerberos = self.kerberos and msgspec.structs.replace(self.kerberos, keytab=absolute(self.kerberos.keytab))
        return msgspec.structs.replace(
            self, models=models, tls=tls, tokens_file=absolute(self.tokens_file), access_log=absolute(self.access_log),
            cache_directory=absolute(self.cache_directory), kerberos=kerberos,
        )  # fmt: skip
