"""What a job is: frozen data, no I/O.

Every class here is a section of the job file; `afo.jobfile` reads one, `docs/job-file.md` is generated from these
types. A field's `Meta(description=…)` is its documentation.
"""

import re
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from afo.bounds import Bound
from afo.units import Duration, Memory

Role = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[Role, ...] = ("chief", "worker", "ps", "evaluator")

Name = Annotated[
    str, Meta(min_length=1, max_length=200, description="Shown in every list; any characters; variables allowed.")
]
PositiveInt = Annotated[int, Meta(ge=1)]
Rate = Annotated[float, Meta(gt=0)]
#: What the evaluator measures; of a model of several labels also as `auc/<label>`.
METRICS = ("auc", "log_loss", "calibration", "samples")
#: Metrics that tell a better model from a worse one, and whether more of it is better.
RANKING = {"auc": True, "log_loss": False}


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all sections: frozen, and an unknown key is an error."""


class Elastic(Section, frozen=True):
    """A number of instances that may change while the job runs."""

    min: PositiveInt
    max: PositiveInt


class RoleSpec(Section, frozen=True):
    """Containers of one role."""

    instances: Annotated[int | Elastic, Meta(description="How many; `{min, max}` for workers.")] = 1
    memory: Annotated[Memory, Meta(description="Per container: `8 GiB`, `8g` or `8192` (MiB).")] = Memory(2048)
    vcores: Annotated[PositiveInt, Meta(description="Virtual cores per container; sets the thread pools.")] = 1
    node_label: Annotated[str, Meta(description="YARN node label to run on.")] = ""
    gpus: Annotated[int, Meta(ge=0, description="GPUs per container (`yarn.io/gpu`); with 0 it sees none.")] = 0

    @property
    def count(self) -> int:
        """Instances asked for at the start (the upper bound of an elastic role)."""
        return self.instances if isinstance(self.instances, int) else self.instances.max


class MasterSpec(Section, frozen=True):
    """The Application Master's container."""

    memory: Annotated[Memory, Meta(description="Memory of the AM container.")] = Memory(1024)
    vcores: PositiveInt = 1
    attempts: Annotated[int, Meta(ge=1, le=10, description="YARN application attempts.")] = 1


#: What a NodeManager takes; these texts end up in a shell script and in a list separated by commas.
_DOCKER_NAME = re.compile(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)
_DOCKER_MOUNT = re.compile(r"/[\w./@+-]*:/[\w./@+-]*:(ro|rw)", re.ASCII)


class Docker(Section, frozen=True):
    """Containers of the tasks run in a Docker image (Docker on YARN); the AM's container does not."""

    image: Annotated[str, Meta(min_length=1, description="Image that the cluster's registries allow.")]
    mounts: Annotated[tuple[str, ...], Meta(description="`/source:/target:ro` or `:rw`, of what YARN allows.")] = ()
    network: Annotated[str, Meta(description="Docker network; left out: the cluster's default.")] = ""

    def __post_init__(self) -> None:
        for key, name in (("image", self.image), ("network", self.network)):
            if name and not _DOCKER_NAME.fullmatch(name):
                raise ValueError(f"`{key}` is {name!r}; write it as Docker does, e.g. `registry:5000/ads/ctr:1.2`")
        for mount in self.mounts:
            if not _DOCKER_MOUNT.fullmatch(mount):
                raise ValueError(f"`mounts` has {mount!r}; write `/source:/target:ro` or `:rw`, without blanks")


class Environment(Section, frozen=True):
    """What the containers run with."""

    python: Annotated[
        str,
        Meta(description="An archive (`afo env pack`; `env.tar.gz`, `hdfs:///envs/ctr.tar.gz`) or an interpreter's "
             "path that exists on every node (with `docker`: in the image, there `python3` where it is left out); left "
             "out: the interpreter `afo submit` runs with."),
    ] = ""  # fmt: skip
    files: Annotated[
        tuple[str, ...], Meta(description="Files or folders put beside the program; relative to this file.")
    ] = ()
    variables: Annotated[dict[str, str], Meta(description="What the TensorFlow process really sees.")] = field(
        default_factory=dict
    )
    preload: Annotated[str, Meta(description="Allocator library for LD_PRELOAD, e.g. libjemalloc.so.2.")] = ""
    docker: Docker | None = None

    @property
    def is_packed(self) -> bool:
        """True if `python` is an archive to unpack, not an interpreter's path."""
        return self.python.endswith((".tar.gz", ".tgz", ".zip"))


class Shuffle(Section, frozen=True):
    """How training records are mixed; deterministic by seed."""

    files: Annotated[bool, Meta(description="Hand files out in random order.")] = True
    buffer: Annotated[int, Meta(ge=0, description="Records of a file mixed in memory; 0: as they lie.")] = 10_000
    seed: int = 1


class NegativeSampling(Section, frozen=True):
    """Keeps a part of the samples whose labels are all 0; which ones depends on the sample id alone."""

    keep: Annotated[float, Meta(gt=0, le=1, description="Share of the negatives that is trained on.")]
    reweight: Annotated[
        bool, Meta(description="Give the kept ones the weight `1 / keep`, so that probabilities stay calibrated.")
    ] = True


class Data(Section, frozen=True):
    """The records: TFRecord files of `tf.Example`, or Parquet files."""

    train: Annotated[tuple[str, ...], Meta(description="Globs of training files; date variables allowed.")] = ()
    schema: Annotated[
        str, Meta(description="Feature schema; relative to this file. Left out: inferred from the first records.")
    ] = ""
    format: Annotated[
        Literal["auto", "tfrecord", "parquet"], Meta(description="`auto`: Parquet where the name ends in `.parquet`.")
    ] = "auto"
    wait_for: Annotated[
        str, Meta(description="Marker that every directory of `train` and `eval` must hold first, e.g. `_SUCCESS`.")
    ] = ""
    eval: Annotated[tuple[str, ...], Meta(description="Globs of evaluation files.")] = ()
    compression: Literal["auto", "none", "gzip", "zlib"] = "auto"
    label: Annotated[
        str | tuple[str, ...], Meta(description="Feature that holds 0 or 1; several for a model of several outputs.")
    ] = "label"
    weight: Annotated[str | None, Meta(description="Feature that holds a sample's weight.")] = None
    sample_id: Annotated[str | None, Meta(description="Integer feature that names a sample; left out: its bytes.")] = (
        None
    )
    batch_size: PositiveInt = 1024
    epochs: PositiveInt = 1
    shuffle: Shuffle = Shuffle()
    max_bad_records: Annotated[float, Meta(ge=0, lt=1, description="Share of corrupt records to skip.")] = 0.0
    negative_sampling: NegativeSampling | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels' names, one or more."""
        return (self.label,) if isinstance(self.label, str) else self.label

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) < len(self.labels):
            raise ValueError(f"`label` names at least one feature, each once, not {list(self.labels)}")
        if set(self.wait_for) & set("/*?[]{}\\"):
            raise ValueError(f"`wait_for` is the name of a file, e.g. _SUCCESS, not {self.wait_for!r}")


class Embedding(Section, frozen=True):
    """Embedding tables of the deep part."""

    dim: PositiveInt = 16
    hash_buckets: Annotated[int, Meta(ge=2, description="Rows per feature where the schema says nothing.")] = 100_000


class Wide(Section, frozen=True):
    """The linear part."""

    crosses: Annotated[tuple[tuple[str, ...], ...], Meta(description="Features crossed with each other.")] = ()
    cross_buckets: Annotated[int, Meta(ge=2, description="Hash buckets per cross.")] = 100_000


class Model(Section, frozen=True):
    """The model: `wide_deep` of Cheng et al. (2016), arXiv:1606.07792, or one of your own by `entry`."""

    kind: Annotated[Literal["wide_deep", "entry"], Meta(description="`entry` is implied by `entry`.")] = "wide_deep"
    entry: Annotated[
        str,
        Meta(description="`my_ctr.py:build`, a function that returns a Keras 3 model or a `tf.Module`; the file is "
             "relative to this one."),
    ] = ""  # fmt: skip
    params: Annotated[
        dict[str, str | int | float | bool], Meta(description="Keyword arguments of the function in `entry`.")
    ] = field(default_factory=dict)
    from_logits: Annotated[
        bool, Meta(description="The outputs of `entry`'s model are log odds, not probabilities.")
    ] = False
    #: Of `wide_deep`:
    parts: Annotated[Literal["both", "wide", "deep"], Meta(description="Train one part alone to compare.")] = "both"
    hidden_units: Annotated[tuple[PositiveInt, ...], Meta(min_length=1)] = (256, 128, 64)
    embedding: Embedding = Embedding()
    wide: Wide = Wide()


class Ftrl(Section, frozen=True):
    """FTRL-Proximal (McMahan et al., 2013)."""

    learning_rate: Rate = 0.05
    l1: Annotated[float, Meta(ge=0)] = 0.0
    l2: Annotated[float, Meta(ge=0)] = 0.0
    initial_accumulator: Rate = 0.1


class Adagrad(Section, frozen=True):
    """AdaGrad (Duchi et al., 2011)."""

    learning_rate: Rate = 0.05
    initial_accumulator: Rate = 0.1


class Sgd(Section, frozen=True):
    """Plain stochastic gradient descent."""

    learning_rate: Rate = 0.01


class Adam(Section, frozen=True):
    """Adam (Kingma and Ba, 2015); rows that a batch does not touch stay as they are (lazy)."""

    learning_rate: Rate = 0.001
    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Rate = 1e-7


class OptimizerChoice(Section, frozen=True):
    """Exactly one optimizer."""

    ftrl: Ftrl | UnsetType = UNSET
    adagrad: Adagrad | UnsetType = UNSET
    sgd: Sgd | UnsetType = UNSET
    adam: Adam | UnsetType = UNSET

    def __post_init__(self) -> None:
        if sum(value is not UNSET for value in (self.ftrl, self.adagrad, self.sgd, self.adam)) != 1:
            raise ValueError("name exactly one optimizer: ftrl, adagrad, sgd or adam")

    @property
    def chosen(self) -> Ftrl | Adagrad | Sgd | Adam:
        """The one that was named."""
        for value in (self.ftrl, self.adagrad, self.sgd, self.adam):
            if not isinstance(value, UnsetType):
                return value
        raise AssertionError("unreachable: __post_init__ demands one")


class Schedule(Section, frozen=True):
    """A factor of every learning rate, by the number of steps of all workers."""

    warmup_steps: Annotated[int, Meta(ge=0, description="Rises from 0 to 1 in so many steps.")] = 0
    decay: Annotated[
        Literal["none", "exponential", "linear", "cosine"], Meta(description="How it falls after the warm-up.")
    ] = "none"
    decay_steps: Annotated[
        PositiveInt, Meta(description="Steps of one multiplication by `decay_rate`, or down to `floor`.")
    ] = 100_000
    decay_rate: Annotated[float, Meta(gt=0, le=1, description="Of `exponential`.")] = 0.5
    floor: Annotated[float, Meta(ge=0, le=1, description="It never falls below this.")] = 0.0


class Optimizer(Section, frozen=True):
    """How gradients are applied."""

    wide: OptimizerChoice = OptimizerChoice(ftrl=Ftrl())
    deep: Annotated[
        OptimizerChoice | None,
        Meta(description="Of all but the linear part. Left out: AdaGrad, or what `entry`'s model was compiled with."),
    ] = None
    schedule: Schedule = Schedule()

    @property
    def deep_or_default(self) -> OptimizerChoice:
        """The optimizer of all but the linear part where the model itself brings none."""
        return self.deep or OptimizerChoice(adagrad=Adagrad())

    mode: Annotated[Literal["async"], Meta(description="Workers never wait for each other.")] = "async"


class EarlyStop(Section, frozen=True):
    """Ends the training when the evaluations get no better."""

    metric: Annotated[str, Meta(description="`auc` (more is better) or `log_loss` (less is).")] = "auc"
    patience: Annotated[PositiveInt, Meta(description="Evaluations without a new best one.")] = 3
    min_delta: Annotated[float, Meta(ge=0, description="Least gain that counts.")] = 0.0

    def __post_init__(self) -> None:
        _check_ranking(self.metric)


class Train(Section, frozen=True):
    """When to stop and when to look."""

    max_steps: Annotated[int | None, Meta(description="Stop after so many steps of all workers.")] = None
    eval_every: Annotated[Duration, Meta(description="How often a checkpoint is made for the evaluator.")] = Duration(
        600
    )
    early_stop: EarlyStop | None = None


class WarmStart(Section, frozen=True):
    """The model that the training begins with."""

    sources: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Directories of checkpoints or manifests; the first that holds one is taken."),
    ]
    missing: Annotated[Literal["fail", "fresh"], Meta(description="What to do when none holds a checkpoint.")] = "fail"


def _check_ranking(metric: str) -> None:
    if metric.split("/")[0] not in RANKING:
        raise ValueError(f"`metric` is {metric!r}; allowed are {', '.join(RANKING)}")


class Checkpoint(Section, frozen=True):
    """Where the model is saved while it trains."""

    dir: Annotated[str, Meta(description="Gets a directory for each job; left out: in the job's own.")] = ""
    every: Duration = Duration(600)
    keep: PositiveInt = 3
    warm_start: Annotated[
        str | WarmStart | None,
        Meta(description="A checkpoint to begin with, e.g. yesterday's `hdfs://ns1/models/ctr/{{dt-1}}`."),
    ] = None
    on_ps_loss: Literal["rollback"] = "rollback"

    @property
    def warm(self) -> WarmStart | None:
        """`warm_start` in its long form."""
        if isinstance(self.warm_start, str):
            return WarmStart(sources=(self.warm_start,)) if self.warm_start else None
        return self.warm_start


class Export(Section, frozen=True):
    """Where the SavedModel goes when training ends."""

    dir: Annotated[str, Meta(description="Left out: in the job's own directory.")] = ""
    checkpoint: Annotated[
        Literal["last", "best"], Meta(description="Which one is exported; `best` by `metric` of the evaluator.")
    ] = "last"
    metric: Annotated[str, Meta(description="What `best` means: `auc` (more) or `log_loss` (less).")] = "auc"
    require: Annotated[
        dict[str, str],
        Meta(description="The quality gate: a bound for each metric, e.g. `auc: '>=0.74'`, `calibration: 0.9..1.1`, "
             "`coverage_drop: '<=0.1'`. Without it nothing is exported, and the job fails."),
    ] = field(default_factory=dict)  # fmt: skip

    def __post_init__(self) -> None:
        _check_ranking(self.metric)
        allowed = (*METRICS, "auc_drop", "coverage_drop")
        for name, text in self.require.items():
            if name.split("/")[0] not in allowed:
                raise ValueError(f"`require` knows no metric {name!r}; allowed are {', '.join(allowed)}")
            Bound.parse(text)

    @property
    def awaits_evaluation(self) -> bool:
        """Whether it takes the final evaluation to say what is exported."""
        return bool(self.require) or self.checkpoint == "best"


class RestartBudget(Section, frozen=True):
    """How many restarts by fault of the task are allowed in a window."""

    max: Annotated[int, Meta(ge=0)]
    per: Duration = Duration(3600)


class Restart(Section, frozen=True):
    """How tasks come back: a budget for each role."""

    chief: RestartBudget = RestartBudget(max=5)
    worker: RestartBudget = RestartBudget(max=5)
    ps: RestartBudget = RestartBudget(max=5)
    evaluator: RestartBudget = RestartBudget(max=5)
    scope: Annotated[
        Literal["job", "task"],
        Meta(description="Of a `program`: with one task, `job` starts the processes of all others anew in place; "
             "`task` leaves them alone."),
    ] = "job"  # fmt: skip

    def of(self, role: Role) -> RestartBudget:
        """The budget of a role."""
        budget: RestartBudget = getattr(self, role)
        return budget


class Timeouts(Section, frozen=True):
    """After how long the job gives up waiting."""

    allocate: Annotated[Duration, Meta(description="For all containers to run.")] = Duration(1800)
    stall: Annotated[Duration, Meta(description="Without a step of any worker.")] = Duration(600)
    hang: Annotated[
        Duration, Meta(description="Without a step of one task; its stacks are taken then (`afo events`).")
    ] = Duration(120)
    orphan: Annotated[Duration, Meta(description="A Child without its AM ends itself.")] = Duration(120)
    job: Annotated[Duration, Meta(description="For the whole job.")] = Duration(7 * 86400)
    data: Annotated[Duration, Meta(description="For the markers of `data.wait_for`.")] = Duration(6 * 3600)


class Job(Section, frozen=True):
    """A training job."""

    name: Name
    roles: Annotated[dict[Role, RoleSpec], Meta(description="`ps` and `worker` at least; of a `program`, `worker`.")]
    defaults: Annotated[
        str, Meta(description="A file of the same keys, which hold where this one says nothing; relative to this file.")
    ] = ""
    data: Annotated[Data, Meta(description="Needed by `model`; a `program` reads what it likes.")] = Data()
    program: Annotated[
        str, Meta(description="Your own script, in place of `model`: runs in every role; relative to this file.")
    ] = ""
    args: Annotated[tuple[str, ...], Meta(description="Arguments of `program`.")] = ()
    ends_with: Annotated[
        Literal["all", "chief"],
        Meta(description="Of a `program`: the job has succeeded when chief and workers have ended with 0 (`all`), or "
             "the `chief` has, whose workers serve for ever (a `ClusterCoordinator`)."),
    ] = "all"  # fmt: skip
    queue: Annotated[str, Meta(description="YARN queue.")] = "default"
    tags: dict[str, str] = field(default_factory=dict)
    vars: Annotated[dict[str, str], Meta(description="Used as `{{name}}`, `{{name-1}}`, `{{name-6..name}}`.")] = field(
        default_factory=dict
    )
    engine: Literal["tensorflow"] = "tensorflow"
    environment: Environment = Environment()
    am: MasterSpec = MasterSpec()
    model: Model = Model()
    optimizer: Optimizer = Optimizer()
    train: Train = Train()
    checkpoint: Checkpoint = Checkpoint()
    export: Export = Export()
    restart: Restart = Restart()
    timeouts: Timeouts = Timeouts()
    on_end: Annotated[
        tuple[str, ...],
        Meta(description="Command that the AM runs once the job has ended, e.g. `[curl, -d, '@verdict.json', URL]`."),
    ] = ()

    def __post_init__(self) -> None:
        for role in ("worker",) if self.program else ("ps", "worker"):
            if role not in self.roles or self.roles[role].count < 1:
                raise ValueError(f"`roles` needs `{role}` with at least one instance")
        for role in ("chief", "evaluator"):
            if role in self.roles and self.roles[role].count != 1:
                raise ValueError(f"`roles.{role}`: there is one or none, not {self.roles[role].count}")
        for role, spec in self.roles.items():
            if isinstance(spec.instances, int) and spec.instances < 1:
                raise ValueError(f"`roles.{role}.instances` is {spec.instances}; at least 1")
            if isinstance(spec.instances, Elastic) and (role != "worker" or spec.instances.min > spec.instances.max):
                raise ValueError(f"`roles.{role}.instances`: only workers are elastic, with min <= max")
        self._check_program()
        if not self.program and not self.data.train:
            raise ValueError("`data.train` needs at least one file or glob")
        if "evaluator" in self.roles and not self.program and not self.data.eval:
            raise ValueError("`roles.evaluator` needs files in `data.eval`")
        if "evaluator" not in self.roles:
            self._check_unevaluated()

    def _check_program(self) -> None:
        if self.program and self.model != Model():
            raise ValueError("a job has a `model` or a `program`, not both")
        if self.ends_with != "all" and not self.program:
            raise ValueError("`ends_with` is for a job with a `program`; a model's workers end with the data")

    def _check_unevaluated(self) -> None:
        wants = {
            "train.early_stop": self.train.early_stop is not None,
            "export.require": bool(self.export.require),
            "export.checkpoint": self.export.checkpoint == "best",
        }
        for key, wanted in wants.items():
            if wanted:
                raise ValueError(f"`{key}` goes by evaluations: add `roles.evaluator` and `data.eval`, or leave it out")

    @property
    def listening(self) -> tuple[Role, ...]:
        """Roles whose tasks have an address: parameter servers; of a program all but the evaluator."""
        wanted: tuple[Role, ...] = ("chief", "worker", "ps") if self.program else ("ps",)
        return tuple(role for role in wanted if role in self.roles)

    @property
    def restarts_together(self) -> bool:
        """With one of its listening tasks, the processes of all others are started anew."""
        return not self.program or self.restart.scope == "job"

    @property
    def chief(self) -> tuple[Role, int]:
        """Role and index of the task that saves and exports: the chief, or worker 0 where there is none."""
        return ("chief", 0) if "chief" in self.roles else ("worker", 0)
