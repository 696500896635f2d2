"""The environment of a task's TensorFlow process. Pure: the Child applies it, `afo submit --dry-run` prints it."""

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from afo.job import Job, Role
from afo.process.hosts import host_of

#: Roles in TF_CONFIG's cluster. The evaluator stands outside: TensorFlow would count it among the training tasks.
_CLUSTER_ROLES: tuple[Role, ...] = ("chief", "worker", "ps")
#: TensorFlow takes nearly all memory of every GPU that it sees, and not every cluster hides those of other containers.
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}
#: gRPC asks these for a proxy; names in capitals and `all_proxy` it does not read.
_GRPC_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")


class TaskEnvironment(Struct, frozen=True):
    """What is set and what is taken away; all else is inherited (HADOOP_CONF_DIR and the token file among it)."""

    variables: dict[str, str]
    #: Names that must not reach the process, however they came into the container.
    removed: tuple[str, ...]

    def apply_to(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The whole environment, as `execve` gets it."""
        kept = {name: value for name, value in inherited.items() if not _is_private(name) and name not in self.removed}
        return {**kept, **self.variables}


def task_environment(
    job: Job,
    role: Role,
    index: int,
    vcores: int,
    inherited: Mapping[str, str],
    cluster: Mapping[Role, Sequence[str]] | None = None,
) -> TaskEnvironment:
    """The environment of task `role`:`index` in a container of `vcores` cores.

    `inherited` is the container's own environment, `cluster` the addresses by role of the tasks that listen (unknown
    before the job runs). `job.environment.variables` win over everything here, and get added to them alone which hosts
    need no proxy. MALLOC_ARENA_MAX is exactly what they say or absent, because YARN's NodeManager forces its
    own value on every container.
    """
    threads = str(vcores)
    variables = {
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "TF_CPP_MIN_LOG_LEVEL": inherited.get("TF_CPP_MIN_LOG_LEVEL", "1"),
        "OMP_NUM_THREADS": threads,
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": str(_inter_op_threads(job, vcores)),
        **_fail_fast(job),
        # Lets the server bind the port that the Child keeps reserved.
        "TF_GRPC_REUSE_PORT": "1",
        "TF_CONFIG": tf_config(job, role, index, cluster),
        **({} if job.roles[role].gpus else _NO_GPU),
        **_preload(job, inherited),
        **job.environment.variables,
    }
    variables |= _without_proxy(cluster or {}, {**inherited, **job.environment.variables})
    removed = () if "MALLOC_ARENA_MAX" in variables else ("MALLOC_ARENA_MAX",)
    return TaskEnvironment(variables=variables, removed=removed)


def tf_config(job: Job, role: Role, index: int, cluster: Mapping[Role, Sequence[str]] | None = None) -> str:
    """TF_CONFIG: what a `program` builds its servers from; for a model's code that wants to know its place.

    Tasks that listen nowhere, and parameter servers whose address is not known yet, appear under names of the reserved
    domain `.invalid`: their number is right, and connecting to one fails at once.
    """
    counts = {name: job.roles[name].count for name in _CLUSTER_ROLES if name in job.roles}
    whole = {name: [f"{name}-{n}.invalid:0" for n in range(count)] for name, count in counts.items()}
    whole |= {name: list(addresses) for name, addresses in (cluster or {}).items() if addresses}
    return json.dumps({"cluster": whole, "task": {"type": role, "index": index}})


def _inter_op_threads(job: Job, vcores: int) -> int:
    """Operations that wait for other tasks hold a thread each: with fewer than workers, a server of a program hangs.

    Seen with a `ClusterCoordinator` and one thread; TensorFlow's own guide asks for the number of workers and one.
    """
    if not job.program:
        return vcores
    return max(vcores, 1 + sum(job.roles[role].count for role in ("chief", "worker") if role in job.roles))


def _fail_fast(job: Job) -> dict[str, str]:
    """An unreachable peer is an error at once; the default of TensorFlow's gRPC is to wait for ever.

    Programs rely on that default while their cluster comes up, and are started anew when one of them dies.
    """
    return {} if job.program else {"GRPC_FAIL_FAST": "use_caller"}


def _is_private(name: str) -> bool:
    """Variables of the launcher and of skein: with those user code could act as the Application Master.

    And where a task listens in which this one was submitted.
    """
    return name.startswith("SKEIN_") or name in ("AFO_CHILD_CONFIG", "AFO_LISTEN")


def _without_proxy(cluster: Mapping[Role, Sequence[str]], environment: Mapping[str, str]) -> dict[str, str]:
    """TensorFlow's gRPC would send the traffic between tasks through `http_proxy`, and hang there.

    The proxy itself stays, for what the program fetches from outside.
    """
    hosts = sorted({host_of(address) for addresses in cluster.values() for address in addresses})
    if not hosts or not any(name in environment for name in _GRPC_PROXIES):
        return {}
    known = environment.get("no_grpc_proxy", environment.get("no_proxy", ""))
    return {"no_grpc_proxy": ",".join([*filter(None, [known]), *hosts])}


def _preload(job: Job, inherited: Mapping[str, str]) -> dict[str, str]:
    """The allocator comes first, what the container already preloads stays."""
    if not job.environment.preload:
        return {}
    return {"LD_PRELOAD": ":".join(filter(None, [job.environment.preload, inherited.get("LD_PRELOAD", "")]))}
