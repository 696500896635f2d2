"""What worker and evaluator make of their task: the model's layout, its input and the Application Master."""

from functools import cached_property
from pathlib import Path

from afo.data.schema import Schema, read_schema
from afo.errors import SpecError
from afo.models.encode import Encoder
from afo.models.layout import Layout, layout_of
from afo.models.records import RecordParser
from afo.optimizers import rule_of
from afo.rpc.client import AmClient
from afo.rpc.master import Master
from afo.rpc.messages import TaskId
from afo.rpc.wire import read_secret
from afo.train.parameters import Parameters, parameters_of
from afo.train.progress import ProgressPipe
from afo.train_task import TrainTask


class Setup:
    """Everything a role's loop starts from."""

    def __init__(self, task: TrainTask) -> None:
        self.task = task
        self.job = task.job
        self.id = TaskId(role=task.role, index=task.index, attempt=task.attempt)
        self.progress = ProgressPipe(task.progress_fd)
        self.work_dir = Path(task.work_dir)

    @cached_property
    def master(self) -> Master:
        """The Application Master."""
        return Master(AmClient(self.task.am_address_url, read_secret(self.task.secret_file)))

    @cached_property
    def schema(self) -> Schema:
        """The feature schema. Raises SpecError where the job contradicts it."""
        schema = read_schema(self.task.schema_file)
        for field in ("label", "sample_id"):
            name = getattr(self.job.data, field)
            if name in schema.names:
                raise SpecError(f"`data.{field}` is `{name}`, which a model must not see: take it out of the schema")
        return schema

    @cached_property
    def layout(self) -> Layout:
        """Tables and weights of the model."""
        return layout_of(self.schema, self.job.model)

    @cached_property
    def parser(self) -> RecordParser:
        """Reads records."""
        return RecordParser(self.schema, self.job.data)

    @cached_property
    def encoder(self) -> Encoder:
        """Turns features into rows."""
        return Encoder(self.layout)

    def parameters(self, servers: int) -> Parameters:
        """The model's variables on `servers` parameter servers."""
        optimizer = self.job.optimizer
        return parameters_of(
            self.layout, rule_of(optimizer.deep_or_default), rule_of(optimizer.wide), servers, self.task.num_splits
        )
