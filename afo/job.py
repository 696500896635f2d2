"""What a job is: frozen data, no I/O.

Every class here is a section of the job file; `afo.jobfile` reads one, `docs/job-file.md` is generated from these
types. A field's `Meta(description=…)` is its documentation.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from afo.units import Duration, Memory

Role = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[Role, ...] = ("chief", "worker", "ps", "evaluator")

Name = Annotated[str, Meta(min_length=1, max_length=200, description="Shown in every list; any characters.")]
PositiveInt = Annotated[int, Meta(ge=1)]
Rate = Annotated[float, Meta(gt=0)]


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

    @property
    def count(self) -> int:
        """Instances asked for at the start (the upper bound of an elastic role)."""
        return self.instances if isinstance(self.instances, int) else self.instances.max


class MasterSpec(Section, frozen=True):
    """The Application Master's container."""

    memory: Annotated[Memory, Meta(description="Memory of the AM container.")] = Memory(1024)
    vcores: PositiveInt = 1
    attempts: Annotated[int, Meta(ge=1, le=10, description="YARN application attempts.")] = 1


class Environment(Section, frozen=True):
    """What the containers run with."""

    python: Annotated[
        str,
        Meta(description="An archive (`hdfs:///envs/ctr.tar.gz`) or an interpreter's path that exists on every node; "
             "left out: the interpreter `afo submit` runs with."),
    ] = ""  # fmt: skip
    files: Annotated[
        tuple[str, ...], Meta(description="Files or folders put beside the program; relative to this file.")
    ] = ()
    variables: Annotated[dict[str, str], Meta(description="What the TensorFlow process really sees.")] = field(
        default_factory=dict
    )
    preload: Annotated[str, Meta(description="Allocator library for LD_PRELOAD, e.g. libjemalloc.so.2.")] = ""


class Shuffle(Section, frozen=True):
    """How training records are mixed; deterministic by seed."""

    files: Annotated[bool, Meta(description="Hand files out in random order.")] = True
    buffer: Annotated[int, Meta(ge=0, description="Records of a file mixed in memory; 0: as they lie.")] = 10_000
    seed: int = 1


class Data(Section, frozen=True):
    """The records: TFRecord files of `tf.Example`."""

    schema: Annotated[str, Meta(description="Feature schema; relative to this file.")]
    train: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Globs of training files; date variables allowed.")
    ]
    eval: Annotated[tuple[str, ...], Meta(description="Globs of evaluation files.")] = ()
    compression: Literal["auto", "none", "gzip", "zlib"] = "auto"
    label: Annotated[str, Meta(description="Feature that holds 0 or 1.")] = "label"
    weight: Annotated[str | None, Meta(description="Feature that holds a sample's weight.")] = None
    sample_id: Annotated[str | None, Meta(description="Integer feature that names a sample; left out: its bytes.")] = (
        None
    )
    batch_size: PositiveInt = 1024
    epochs: PositiveInt = 1
    shuffle: Shuffle = Shuffle()
    max_bad_records: Annotated[float, Meta(ge=0, lt=1, description="Share of corrupt records to skip.")] = 0.0


class Embedding(Section, frozen=True):
    """Embedding tables of the deep part."""

    dim: PositiveInt = 16
    hash_buckets: Annotated[int, Meta(ge=2, description="Rows per feature where the schema says nothing.")] = 100_000


class Wide(Section, frozen=True):
    """The linear part."""

    crosses: Annotated[tuple[tuple[str, ...], ...], Meta(description="Features crossed with each other.")] = ()
    cross_buckets: Annotated[int, Meta(ge=2, description="Hash buckets per cross.")] = 100_000


class Model(Section, frozen=True):
    """The model; `wide_deep` is the one of Cheng et al. (2016), arXiv:1606.07792."""

    kind: Literal["wide_deep"] = "wide_deep"
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


class OptimizerChoice(Section, frozen=True):
    """Exactly one optimizer."""

    ftrl: Ftrl | UnsetType = UNSET
    adagrad: Adagrad | UnsetType = UNSET
    sgd: Sgd | UnsetType = UNSET

    def __post_init__(self) -> None:
        if sum(value is not UNSET for value in (self.ftrl, self.adagrad, self.sgd)) != 1:
            raise ValueError("name exactly one optimizer: ftrl, adagrad or sgd")

    @property
    def chosen(self) -> Ftrl | Adagrad | Sgd:
        """The one that was named."""
        for value in (self.ftrl, self.adagrad, self.sgd):
            if not isinstance(value, UnsetType):
                return value
        raise AssertionError("unreachable: __post_init__ demands one")


class Optimizer(Section, frozen=True):
    """How gradients are applied."""

    wide: OptimizerChoice = OptimizerChoice(ftrl=Ftrl())
    deep: OptimizerChoice = OptimizerChoice(adagrad=Adagrad())
    mode: Annotated[Literal["async"], Meta(description="Workers never wait for each other.")] = "async"


class Train(Section, frozen=True):
    """When to stop and when to look."""

    max_steps: Annotated[int | None, Meta(description="Stop after so many steps of all workers.")] = None
    eval_every: Annotated[Duration, Meta(description="How often a checkpoint is made for the evaluator.")] = Duration(
        600
    )


class Checkpoint(Section, frozen=True):
    """Where the model is saved while it trains."""

    dir: Annotated[str, Meta(description="Gets a directory for each job; left out: in the job's own.")] = ""
    every: Duration = Duration(600)
    keep: PositiveInt = 3
    on_ps_loss: Literal["rollback"] = "rollback"


class Export(Section, frozen=True):
    """Where the SavedModel goes when training ends."""

    dir: Annotated[str, Meta(description="Left out: in the job's own directory.")] = ""


class RestartBudget(Section, frozen=True):
    """How many restarts by fault of the task are allowed in a window."""

    max: Annotated[int, Meta(ge=0)]
    per: Duration = Duration(3600)


def _default_restart() -> dict[Role, RestartBudget]:
    return {role: RestartBudget(max=5) for role in ROLES}


class Timeouts(Section, frozen=True):
    """After how long the job gives up waiting."""

    allocate: Annotated[Duration, Meta(description="For all containers to run.")] = Duration(1800)
    stall: Annotated[Duration, Meta(description="Without a step of any worker.")] = Duration(600)
    orphan: Annotated[Duration, Meta(description="A Child without its AM ends itself.")] = Duration(120)
    job: Annotated[Duration, Meta(description="For the whole job.")] = Duration(7 * 86400)


class Job(Section, frozen=True):
    """A training job."""

    name: Name
    roles: Annotated[dict[Role, RoleSpec], Meta(description="`ps` and `worker` at least.")]
    data: Data
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
    restart: dict[Role, RestartBudget] = field(default_factory=_default_restart)
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        for role in ("ps", "worker"):
            if role not in self.roles or self.roles[role].count < 1:
                raise ValueError(f"`roles` needs `{role}` with at least one instance")
        for role in ("chief", "evaluator"):
            if role in self.roles and self.roles[role].count != 1:
                raise ValueError(f"there is one `{role}` or none, not {self.roles[role].count}")
        for role, spec in self.roles.items():
            if isinstance(spec.instances, int) and spec.instances < 1:
                raise ValueError(f"`roles.{role}.instances` is {spec.instances}; at least 1")
            if isinstance(spec.instances, Elastic) and (role != "worker" or spec.instances.min > spec.instances.max):
                raise ValueError(f"`roles.{role}.instances`: only workers are elastic, with min <= max")
        if "evaluator" in self.roles and not self.data.eval:
            raise ValueError("`roles.evaluator` needs files in `data.eval`")

    @property
    def chief(self) -> tuple[Role, int]:
        """Role and index of the task that saves and exports: the chief, or worker 0 where there is none."""
        return ("chief", 0) if "chief" in self.roles else ("worker", 0)
