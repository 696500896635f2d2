"""A small job's model on parameter servers out of a checkpoint: functions for processes of their own (`fork_server`).

Its job is the one that the checkpoints of `tests/afo/checkpoint/golden/trained*` are of.
"""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import server_values
from afo.checkpoint.restore import CheckpointReader, restore
from afo.checkpoint.warm_start import open_source, take_over
from afo.data.feature import Feature
from afo.data.schema import Schema
from afo.embedding.checkpoint import TableSaver
from afo.job import (
    Adagrad,
    Adam,
    Checkpoint,
    Data,
    Embedding,
    Eviction,
    Filter,
    Job,
    Model,
    Optimizer,
    OptimizerChoice,
    RoleSpec,
    WarmStart,
    Wide,
)
from afo.state.parameters import Parameters
from afo.state.server_connections import connect
from afo.state.server_state import server_states
from afo.state.variables import VariableIo
from afo.tables import row_block
from afo.tables.saved_tables import chain
from afo.train.setup import JobParts

SPLITS = 4
SCHEMA = Schema(
    label="label", sample_id="sample_id",
    features=(
        Feature(name="user", kind="categorical"),
        Feature(name="city", kind="string", vocab=("Bonn", "Ulm")),
        Feature(name="age", kind="dense", buckets=(20.0, 40.0)),
    ),
)  # fmt: skip
EMBEDDINGS = {
    "dense": Embedding(dim=2, hash_buckets=7, storage="dense"),
    "tables": Embedding(dim=2),
    "filter": Embedding(dim=2, filter=Filter(min_count=3), evict=Eviction(unused_steps=2)),
}


def parts_of(kind: str, directory: Path) -> JobParts:
    """The job with one of `EMBEDDINGS`; its schema goes into `directory`."""
    file = directory / "schema.yaml"
    file.write_text(SCHEMA.to_yaml())
    job = Job(
        name="clicks", roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()},
        data=Data(schema=str(file), train=("part-*",), sample_id="sample_id", batch_size=4, epochs=2),
        optimizer=Optimizer(
            deep=OptimizerChoice(adam=Adam(learning_rate=0.1)), wide=OptimizerChoice(adagrad=Adagrad(learning_rate=0.1))
        ),
        model=Model(
            hidden_units=(3,), embedding=EMBEDDINGS[kind], wide=Wide(crosses=(("user", "city"),), cross_buckets=5)
        ),
        checkpoint=Checkpoint(on_ps_loss="partial"),
    )  # fmt: skip
    return JobParts(job, str(file))


def features() -> dict[str, Any]:
    """Twelve samples, [12, 1] each: the records that those checkpoints were trained on."""
    users, cities = (10, -3, 2**40 + 7, 10, 55, 2**62 + 1, 10, -3, 77), ("Bonn", "Ulm", "Köln")
    return {
        "user": tf.constant([[users[n % 9]] for n in range(12)], tf.int64),
        "city": tf.constant([[cities[n % 3]] for n in range(12)]),
        "age": tf.constant([[7.5 * (n % 11)] for n in range(12)]),
    }


def be_client(addresses: str, kind: str, url: str, directory: str) -> None:
    """Have each of three ways fill the servers, and write down after each what they hold (`write`).

    `all`: restored. `lost`: server 0 restored, the others changed before. `warm`: initialised, and the model taken
    over. Ends the process with 0, or 1 and the error on stderr.
    """
    code, folder, servers = 1, Path(directory), json.loads(addresses)
    try:
        with connect(tuple(servers)):
            parts = parts_of(kind, folder)
            parameters = parts.model.parameters(len(servers), SPLITS)
            with CheckpointReader(url, folder) as reader:
                assert restore(parameters, reader) == reader.manifest.step
                write(parameters, folder / "all")
                change(parameters)
                restore(parameters, reader, range(1, len(servers)))
                write(parameters, folder / "lost")
            parts.model.initialize(parameters)
            (folder / "plan").write_text(taken_over(parts, parameters, url, folder))
            write(parameters, folder / "warm")
        code = 0
    except Exception:
        traceback.print_exc(file=sys.stderr)
    os._exit(code)  # TensorFlow's threads wait for the servers


def taken_over(parts: JobParts, parameters: Parameters, url: str, folder: Path) -> str:
    """What a warm start says of the parts that it did not keep, or why there was none."""
    try:
        reader, _ = open_source(WarmStart(sources=(url,)), "", folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    assert reader is not None
    with reader:
        plan = take_over(parameters, parts.model.sections(parameters), reader)
    return json.dumps([plan.made_new, plan.dropped])


def change(parameters: Parameters) -> None:
    """Add 1 to every number, make 99 steps of them, and empty the hash tables."""
    for variable in server_values.variables_of(parameters):
        VariableIo(variable).assign(VariableIo(variable).read() + 1)
    for server, state in enumerate(server_states(parameters)):
        state.write_weights({name: value + 1 for name, value in state.read_weights().items()})
        if parameters.records_on(server):
            changed = {name: value + 1 for name, value in state.read_records().items()}
            state.write_records(changed | {"step": np.int64(99)})
    if parameters.embeddings is not None:
        for server in range(parameters.servers):
            parameters.embeddings.server(server).clear()


def write(parameters: Parameters, target: Path) -> None:
    """`variables.npz` by name of the variable, and `tables/tables.json` where there are hash tables."""
    target.mkdir()
    np.savez(target / "variables.npz", **server_values.read(parameters))
    if parameters.embeddings is not None:
        TableSaver(parameters.embeddings).save(str(target / "tables"))


def rows_of(url: str, server: int | None = None) -> dict[str, Any]:
    """What a whole checkpoint of hash tables holds, as the `values` of `golden/README.md` name it.

    `server`: of this one alone.
    """
    [(_, manifest)] = chain(url)
    found: dict[str, list[row_block.RowBlock]] = {}
    for entry in manifest.files:
        if server in (None, entry.server):
            for number, block in _blocks(Path(url).parent / entry.file):
                of_filter = row_block.is_of_filter(block)
                name = manifest.tables[number].name + (":filter" if of_filter else "")
                found.setdefault(name, []).append(row_block.decode(block, entry.file))
    return {f"{name}:{part}": value for name, blocks in found.items() for part, value in _sorted(name, blocks)}


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from row_block.read_blocks(file, path.name, path.stat().st_size)


def _sorted(name: str, blocks: list[row_block.RowBlock]) -> Iterator[tuple[str, Any]]:
    order = np.argsort(np.concatenate([block.keys for block in blocks]))
    for part in ("keys", "steps", "frequencies", *([] if name.endswith(":filter") else ["values"])):
        yield part, np.concatenate([getattr(block, part) for block in blocks])[order]
