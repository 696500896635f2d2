"""A job as frozen data, no I/O.

Every class here is a section of the job file; `afo.job.loader` reads one, `docs/job-file.md` is generated from these
types. A field's `Meta(description=…)` is its documentation.
"""

from afo.job.checkpoint import Checkpoint, WarmStart
from afo.job.containers import Docker, Elastic, Environment, MasterSpec, RoleSpec
from afo.job.data import Data, NegativeSampling, Shuffle
from afo.job.embedding import Embedding, Eviction, FeatureTables, Filter, Pooling, ValueDtype, Wire
from afo.job.export import ROW_TYPES, TABLE_KINDS, Export, RowType, TableKind
from afo.job.fault_tolerance import Backoff, HostBudget, Restart, RestartBudget, Slow, Timeouts
from afo.job.job import Job
from afo.job.model import Model, Wide
from afo.job.optimizer import Optimizer, OptimizerChoice, RowOptimizer, Schedule
from afo.job.section import ROLES, Role, Section
from afo.job.security import Acls, Security
from afo.job.training import RANKING, EarlyStop, Train
from afo.job.update_rules import (
    Adagrad,
    AdagradDecay,
    Adam,
    AdamW,
    Ftrl,
    GroupFtrl,
    Momentum,
    RMSprop,
    RowClipping,
    Sgd,
    UpdateRule,
)

__all__ = [
    "RANKING",
    "ROLES",
    "ROW_TYPES",
    "TABLE_KINDS",
    "Acls",
    "Adagrad",
    "AdagradDecay",
    "Adam",
    "AdamW",
    "Backoff",
    "Checkpoint",
    "Data",
    "Docker",
    "EarlyStop",
    "Elastic",
    "Embedding",
    "Environment",
    "Eviction",
    "Export",
    "FeatureTables",
    "Filter",
    "Ftrl",
    "GroupFtrl",
    "HostBudget",
    "Job",
    "MasterSpec",
    "Model",
    "Momentum",
    "NegativeSampling",
    "Optimizer",
    "OptimizerChoice",
    "Pooling",
    "RMSprop",
    "Restart",
    "RestartBudget",
    "Role",
    "RoleSpec",
    "RowClipping",
    "RowOptimizer",
    "RowType",
    "Schedule",
    "Section",
    "Security",
    "Sgd",
    "Shuffle",
    "Slow",
    "TableKind",
    "Timeouts",
    "Train",
    "UpdateRule",
    "ValueDtype",
    "WarmStart",
    "Wide",
    "Wire",
]
