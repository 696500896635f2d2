"""A whole job file."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.job import combinations
from afo.job.checkpoint import Checkpoint
from afo.job.combinations import check_combinations
from afo.job.containers import Environment, MasterSpec, RoleSpec
from afo.job.data import Data
from afo.job.export import Export
from afo.job.fault_tolerance import Restart, Timeouts
from afo.job.model import Model
from afo.job.optimizer import Optimizer
from afo.job.section import Role, Section
from afo.job.security import Acls, Security
from afo.job.training import Train

Name = Annotated[
    str, Meta(min_length=1, max_length=200, description="Shown in every list; any characters; variables allowed.")
]


class Job(Section, frozen=True):
    """A training job."""

    name: Name
    roles: Annotated[dict[Role, RoleSpec], Meta(description="At least `ps` and `worker`; for a `program`, `worker`.")]
    defaults: Annotated[
        str, Meta(description="A file of the same keys, which apply where this one sets none; relative to this file.")
    ] = ""
    data: Annotated[Data, Meta(description="Needed by `model`; a `program` reads its own input.")] = Data()
    program: Annotated[
        str, Meta(description="Your own script, in place of `model`: runs in every role; relative to this file.")
    ] = ""
    args: Annotated[tuple[str, ...], Meta(description="Arguments of `program`.")] = ()
    ends_with: Annotated[
        Literal["all", "chief"],
        Meta(description="For a `program`: the job has succeeded when chief and workers have ended with 0 (`all`), or "
             "when the `chief` has, if its workers serve for ever (a `ClusterCoordinator`)."),
    ] = "all"  # fmt: skip
    queue: Annotated[str, Meta(description="YARN queue.")] = "default"
    tags: dict[str, str] = field(default_factory=dict)
    acls: Acls = Acls()
    security: Security = Security()
    vars: Annotated[dict[str, str], Meta(description="Used as `{{name}}`, `{{name-1}}`, `{{name-6..name}}`.")] = field(
        default_factory=dict
    )
    engine: Annotated[
        Literal["tensorflow", "psplus"],
        Meta(description="What parameter servers are: TensorFlow's (`tensorflow`), or afo's own (`psplus`), whose loss "
             "no worker is restarted for."),
    ] = "tensorflow"  # fmt: skip
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
        if any("\0" in argument for argument in self.args):
            raise ValueError("`args` hold a NUL byte, which no argument can")
        check_combinations(self, combinations.JOB)

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
    def clients_stay(self) -> bool:
        """Whether the processes of chief and workers go over into the next generation when a parameter server is lost:
        clients of afo's own servers can be trusted after that, clients of TensorFlow's cannot."""
        return self.engine == "psplus"

    @property
    def needs_tunnel(self) -> bool:
        """`security.tunnel`, but for an engine whose own connections are encrypted."""
        return self.security.tunnel and self.engine == "tensorflow"

    @property
    def chief(self) -> tuple[Role, int]:
        """Role and index of the task that saves and exports: the chief, or worker 0 where there is none."""
        return ("chief", 0) if "chief" in self.roles else ("worker", 0)
