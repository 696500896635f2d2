"""Sections about containers: how many, how large, and what runs in them."""

import re
from typing import Annotated

from msgspec import Meta, field

from afo.formats.units import Memory
from afo.job.section import MOST_INT, PositiveInt, Section

#: Tasks of one role.
_MOST_INSTANCES = 100_000
#: What a NodeManager takes; these texts end up in a shell script and in a list separated by commas.
_DOCKER_NAME = re.compile(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOCKER_MOUNT = re.compile(r"/[\w./@+-]*:/[\w./@+-]*:(ro|rw)", re.ASCII)


class Elastic(Section, frozen=True):
    """A number of instances that may change while the job runs; `min` of them are enough to begin."""

    min: Annotated[int, Meta(ge=1, le=_MOST_INSTANCES)]
    max: Annotated[int, Meta(ge=1, le=_MOST_INSTANCES)]


class RoleSpec(Section, frozen=True):
    """Containers of one role."""

    instances: Annotated[
        Annotated[int, Meta(le=_MOST_INSTANCES)] | Elastic,
        Meta(description="Number of tasks; `{min, max}` for workers."),
    ] = 1
    memory: Annotated[Memory, Meta(description="Per container: `8 GiB`, `8g` or `8192` (MiB).")] = Memory(2048)
    vcores: Annotated[PositiveInt, Meta(description="Virtual cores per container; sets the thread pools.")] = 1
    node_label: Annotated[str, Meta(description="YARN node label to run on.")] = ""
    gpus: Annotated[
        int, Meta(ge=0, le=MOST_INT, description="GPUs per container (`yarn.io/gpu`); with 0 its process sees none.")
    ] = 0

    optional: Annotated[bool, Meta(description="For `evaluator`: the job goes on if it cannot be kept running.")] = (
        False
    )
    min_success: Annotated[
        float, Meta(gt=0, le=1, description="For the workers of a model: the share that must not be given up.")
    ] = 1.0

    @property
    def count(self) -> int:
        """Instances asked for at the start (the upper bound of an elastic role)."""
        return self.instances if isinstance(self.instances, int) else self.instances.max


class MasterSpec(Section, frozen=True):
    """The Application Master's container."""

    memory: Annotated[Memory, Meta(description="Memory of the AM container.")] = Memory(1024)
    vcores: PositiveInt = 1
    attempts: Annotated[int, Meta(ge=1, le=10, description="YARN application attempts.")] = 2
    metrics: Annotated[bool, Meta(description="The AM answers `/metrics` for Prometheus, on a port of its own.")] = True


class Docker(Section, frozen=True):
    """Containers of the tasks run in a Docker image (Docker on YARN); the AM's container does not."""

    image: Annotated[str, Meta(min_length=1, description="Image that the cluster's registries allow.")]
    mounts: Annotated[tuple[str, ...], Meta(description="`/source:/target:ro` or `:rw`, as far as YARN allows.")] = ()
    network: Annotated[str, Meta(description="Docker network; left out: the cluster's default.")] = ""

    def __post_init__(self) -> None:
        for key, name in (("image", self.image), ("network", self.network)):
            if name and not _DOCKER_NAME.fullmatch(name):
                raise ValueError(f"`{key}` is {name!r}; write it as Docker does, e.g. `registry:5000/ads/ctr:1.2`")
        for mount in self.mounts:
            if not _DOCKER_MOUNT.fullmatch(mount):
                raise ValueError(f"`mounts` has {mount!r}; write `/source:/target:ro` or `:rw`, without blanks")


class Environment(Section, frozen=True):
    """The software that the containers run with."""

    python: Annotated[
        str,
        Meta(description="An archive (`afo env pack`; `env.tar.gz`, `hdfs:///envs/ctr.tar.gz`) or the path of an "
             "interpreter that exists on every node (with `docker`: in the image; left out: its `python3`). Left "
             "out: the interpreter that `afo submit` runs with."),
    ] = ""  # fmt: skip
    files: Annotated[
        tuple[str, ...], Meta(description="Files or folders put beside the program; relative to this file.")
    ] = ()
    variables: Annotated[
        dict[str, str], Meta(description="Environment variables exactly as the TensorFlow process sees them.")
    ] = field(default_factory=dict)
    preload: Annotated[str, Meta(description="Allocator library for LD_PRELOAD, e.g. libjemalloc.so.2.")] = ""
    docker: Docker | None = None

    def __post_init__(self) -> None:
        for name, value in self.variables.items():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"`variables` names {name!r}; allowed are letters, digits and `_`, a digit not first")
            if "\0" in value:
                raise ValueError(f"`variables.{name}` holds a NUL byte, which no environment can")

    @property
    def is_packed(self) -> bool:
        """True if `python` is an archive to unpack, not an interpreter's path."""
        return self.python.endswith((".tar.gz", ".tgz", ".zip"))
