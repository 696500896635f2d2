"""What the parameter servers of a task hold, by name of the variable: for a process of its own."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from afo.embedding import TableGroup, desk_client
from afo.formats import json_file
from afo.protocol.train_task import TrainTask
from afo.state.parameters import Parameters
from afo.state.server_connections import connect
from afo.state.server_state import ServerState, server_states
from afo.state.variables import PsVariable, VariableIo
from afo.tables import row_block
from afo.tables.desk_messages import SavedRows, SaveRequest
from afo.train.setup import Setup


def write(task_file: str, target: str) -> None:
    """Write an .npz and end the process.

    Slots and copies of records have names of their own. Of the hash tables `<table>/keys/<server>`, ascending, and
    `<table>/values/<server>`, weights and slots.
    """
    setup = Setup(json_file.read(task_file, TrainTask))
    parameters = setup.model.parameters(len(setup.task.ps), setup.task.splits_at_start)
    with connect(setup.task.ps):
        values = read(parameters)
        if parameters.embeddings is not None:
            values |= _tables(parameters.embeddings)
        np.savez(target, **values)
    os._exit(0)  # the interpreter's own end joins TensorFlow's threads


def read(parameters: Parameters) -> dict[str, Any]:
    """All but hash tables."""
    values = {each.name: VariableIo(each).read() for each in variables_of(parameters)}
    for server, state in enumerate(server_states(parameters)):
        values |= _dense_and_records(parameters, server, state)
    return values


def variables_of(parameters: Parameters) -> list[PsVariable]:
    """Those of dense tables."""
    shards = [shard for table in parameters.tables for shard in table.shards]
    return [variable for shard in shards for variable in (shard.weights, *shard.slots)]


def _dense_and_records(parameters: Parameters, server: int, state: ServerState) -> dict[str, Any]:
    shard = parameters.dense.shards[server]
    dense = zip((shard.weights, *shard.slots), state.read_weights().values(), strict=True)
    records = state.read_records() if parameters.records_on(server) else {}
    suffix = f"/copy{server}" if server else ""
    return {each.name: value for each, value in dense} | {
        f"afo/{name}{suffix}": value for name, value in records.items()
    }


def _tables(group: TableGroup) -> dict[str, Any]:
    found = {}
    for server in range(group.servers):
        blocks: dict[int, list[row_block.RowBlock]] = {}
        for number, block in _blocks(group, server):
            blocks.setdefault(number, []).append(row_block.decode(block, "server"))
        for number, held in blocks.items():
            keys = np.concatenate([each.keys for each in held])
            order, name = np.argsort(keys), group.tables[number].name
            found[f"{name}/keys/{server}"] = keys[order]
            found[f"{name}/values/{server}"] = np.concatenate([each.values for each in held])[order]
    return found


def _blocks(group: TableGroup, server: int) -> Iterator[tuple[int, bytes]]:
    """All rows of a server, by way of a file: no checkpoint of the job knows of it."""
    with tempfile.TemporaryDirectory() as folder:
        request = SaveRequest(url=folder, server=server, parts=1, since=(-1,) * len(group.tables))
        [saved] = desk_client.ask(group, {server: request}, SavedRows)
        [entry] = saved.files
        with Path(folder, entry.file).open("rb") as file:
            yield from row_block.read_blocks(file, entry.file, entry.size)
