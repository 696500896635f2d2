"""A whole job file."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.job.acls import Acls
from afo.job.checkpoint import Checkpoint
from afo.job.containers import Elastic, Environment, MasterSpec, RoleSpec
from afo.job.data import Data
from afo.job.export import Export
from afo.job.fault_tolerance import Restart, Timeouts
from afo.job.model import Model
from afo.job.optimizer import Optimizer
from afo.job.section import Role, Section
from afo.job.security import Security
from afo.job.training import Train

Name = Annotated[
    str, Meta(min_length=1, max_length=200, description="Shown in every list; any characters; variables allowed.")
]


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
    acls: Acls = Acls()
    security: Security = Security()
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
            self._check_spare(role, spec)
        self._check_program()
        self._check_ps_loss()
        if self.optimizer.embedding is not None and self.model.embedding.storage != "hash_table":
            raise ValueError("`optimizer.embedding` is for `model.embedding.storage: hash_table`; leave it out")
        if not self.program and not self.data.train:
            raise ValueError("`data.train` needs at least one file or glob")
        if "evaluator" in self.roles and not self.program and not self.data.eval:
            raise ValueError("`roles.evaluator` needs files in `data.eval`")
        if "evaluator" not in self.roles:
            self._check_unevaluated()

    def _check_spare(self, role: Role, spec: RoleSpec) -> None:
        if spec.min_success != 1 and (role != "worker" or self.program):
            raise ValueError(f"`roles.{role}.min_success` is for the workers of a model: all else is needed")
        if spec.optional and role != "evaluator":
            raise ValueError(f"`roles.{role}.optional`: only the evaluator is; for workers there is `min_success`")
        if spec.optional and (self.train.early_stop or self.export.awaits_evaluation):
            raise ValueError("`roles.evaluator.optional`: `train.early_stop` or `export` goes by its evaluations")

    def _check_program(self) -> None:
        if any("\0" in each for each in self.args):
            raise ValueError("`args` hold a NUL byte, which no argument can")
        if self.program and self.model != Model():
            raise ValueError("a job has a `model` or a `program`, not both")
        if self.security.tunnel and self.program:
            raise ValueError(
                "`security.tunnel` is for a `model`; a `program` makes connections that are not ours to lead"
            )
        if self.ends_with != "all" and not self.program:
            raise ValueError("`ends_with` is for a job with a `program`; a model's workers end with the data")

    def _check_ps_loss(self) -> None:
        if not self.checkpoint.keeps_survivors:
            return
        if self.program:
            raise ValueError("`checkpoint.on_ps_loss: partial` is for a `model`; a `program` keeps its own checkpoints")
        if self.roles["ps"].count < 2:
            raise ValueError("`checkpoint.on_ps_loss: partial` needs 2 `ps`: with one there is nothing to keep")

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
    def exported_checkpoint(self) -> Literal["last", "best"]:
        """`export.checkpoint`, also where that is left out."""
        evaluator = self.roles.get("evaluator")
        evaluated = evaluator is not None and not evaluator.optional and not self.program
        return self.export.checkpoint or ("best" if evaluated else "last")

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
