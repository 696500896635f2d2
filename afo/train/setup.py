"""Setup of worker and evaluator from their task: the model, its input and the Application Master."""

import copy
from functools import cached_property
from pathlib import Path

from afo.data.schema import Schema, read_schema
from afo.job import Job
from afo.models.parser import RecordParser, parser_of
from afo.protocol.train_task import TrainTask
from afo.rpc.client import AmClient
from afo.rpc.master import Master
from afo.rpc.messages import TaskId
from afo.rpc.wire import read_secret
from afo.state.parameters import Parameters, require_stored
from afo.train.progress import ProgressPipe
from afo.trainable.model_protocol import Model
from afo.trainable.wide_deep_model import WideDeepModel


class JobParts:
    """What a job says of its model and its records."""

    def __init__(self, job: Job, schema_file: str) -> None:
        self.job = job
        self._schema_file = schema_file

    @cached_property
    def schema(self) -> Schema:
        """The feature schema. Raises SpecError where the job contradicts it."""
        return read_schema(self._schema_file, self.job.data)

    @cached_property
    def model(self) -> Model:
        """The model that the job names. Raises SpecError where it contradicts the schema, ModelError if it raises."""
        if self.job.model.entry:
            # Keras takes a second to load, which the other model need not wait for.
            from afo.trainable.entry_model import EntryModel

            return EntryModel(self.schema, self.job)
        if self.job.model.embedding.storage == "hash_table":
            # So do the operations, where they are not used.
            from afo.trainable.hashed_wide_deep import HashedWideDeepModel

            return HashedWideDeepModel(self.schema, self.job)
        return WideDeepModel(self.schema, self.job)

    def parameters(self, servers: int, splits: int) -> Parameters:
        """The model's. Raises Unsupported where the job's engine cannot hold them, and as the model does."""
        parameters = self.model.parameters(servers, splits)
        if self.job.engine == "psplus":
            require_stored(parameters)
        return parameters

    @cached_property
    def parser(self) -> RecordParser:
        """Reads records."""
        return parser_of(self.schema, self.job.data)


class Setup(JobParts):
    """Everything a role's loop starts from."""

    def __init__(self, task: TrainTask) -> None:
        super().__init__(task.job, task.schema_file)
        self.task = task
        self.id = TaskId(role=task.role, index=task.index, attempt=task.attempt)
        self.progress = ProgressPipe(task.progress_fd)
        self.work_dir = Path(task.work_dir)

    def in_generation(self, task: TrainTask) -> "Setup":
        """The same process, with its model, in the generation of `task`."""
        following = copy.copy(self)
        following.task = task
        return following

    @property
    def memory(self) -> int:
        """Bytes that the job file gives this task's container."""
        return int(self.job.roles[self.task.role].memory) << 20

    @cached_property
    def master(self) -> Master:
        """The Application Master."""
        return Master(AmClient(self.task.am_address_url, read_secret(self.task.secret_file)))
