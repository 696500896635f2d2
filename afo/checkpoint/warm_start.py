"""A training that begins with an earlier model, also one of other features, layers or optimizers.

The variables are initialised as for a fresh start, and then what both models have in common is written over them, part
by part (`sections`). The step counter goes on, so that curves and learning-rate schedules do; positions begin
anew, for the files are others.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from afo.checkpoint.manifest import Manifest
from afo.checkpoint.restore import CheckpointReader, row_writer, write_dense
from afo.checkpoint.save import tensors
from afo.checkpoint.tensor_map import DENSE, Section
from afo.checkpoint.transfer_plan import Move, Plan, plan
from afo.checkpoint.warm_start_candidates import candidates, nothing_found
from afo.embedding import checkpoint
from afo.embedding.server_tables import Table
from afo.errors import DataError, NotFound
from afo.job import WarmStart
from afo.state.initialize import write_records
from afo.state.parameters import Parameter, Parameters
from afo.state.server_state import ServerState, server_states

RowWriter = Callable[[Any, Any], None]


def rules_of(parameters: Parameters) -> dict[str, str]:
    """The optimizer of each trained tensor, by the name that the job file has for it."""
    rules = {
        parameter.name: type(parameter.rule).__name__.removesuffix("Rule").lower() for parameter in parameters.trained
    }
    return rules | {table.name: type(table.optimizer).__name__.lower() for table in _hash_tables(parameters)}


def _hash_tables(parameters: Parameters) -> list[Table]:
    return [] if parameters.embeddings is None else parameters.embeddings.tables


def open_source(warm: WarmStart, own_url: str, scratch: Path) -> tuple[CheckpointReader | None, tuple[str, ...]]:
    """The first complete checkpoint of the first source that has one, and what was passed over.

    Raises NotFound where there is none and `missing` is `fail`, DataError for one that says too little of itself.
    """
    passed_over: list[str] = []
    for source in warm.sources:
        found = candidates(source, own_url)
        passed_over += found.passed_over
        for url in found.manifests:
            try:
                return _require_sections(CheckpointReader(url, scratch)), tuple(passed_over)
            except (NotFound, DataError) as error:
                passed_over.append(str(error))
    if warm.missing == "fail":
        raise nothing_found(passed_over)
    return None, tuple(passed_over)


def take_over(parameters: Parameters, sections: tuple[Section, ...], reader: CheckpointReader) -> Plan:
    """Write what `reader` holds of this model over its initialised variables. Raises DataError if that is nothing."""
    saved = reader.manifest
    found = plan(sections, saved.sections, rules_of(parameters), saved.rules)
    _check_something_is_kept(found, parameters, saved, reader.url)
    for table in parameters.tables:
        if moves := found.of(table.name):
            _move_rows(table, moves, table.name in found.with_slots, reader)
    kept = {table.name for table in _hash_tables(parameters) if found.of(table.name)}
    if parameters.embeddings is not None and kept:
        checkpoint.take_over(parameters.embeddings, reader.tables_url, kept, found.with_slots, reader.directory)
    states = server_states(parameters)
    _move_dense(parameters, states, found.of(DENSE), DENSE in found.with_slots, reader)
    records = states[0].read_records()
    for variable in parameters.state:
        name = variable.tensor
        records[name] = _apply_moves(records[name], reader, name, found.of(name))
    records["step"] = np.asarray(saved.step, np.int64)
    for server, state in enumerate(states):
        write_records(parameters, state, server, records)
    return found


def _require_sections(reader: CheckpointReader) -> CheckpointReader:
    if not reader.manifest.sections:
        with reader:
            raise DataError(
                f"{reader.url} is of format {reader.manifest.version}, which does not say which feature owns which rows"
            )
    return reader


def _check_something_is_kept(found: Plan, parameters: Parameters, saved: Manifest, url: str) -> None:
    tables = {table.name for table in parameters.tables} | {table.name for table in _hash_tables(parameters)}
    wanted = tables or {DENSE}
    if not any(move.tensor in wanted for move in found.moves):
        there = sorted({section.owner for section in saved.sections})
        raise DataError(
            f"$.checkpoint.warm_start: {url} and this model have nothing in common: of"
            f" {', '.join(sorted(wanted))} no part could be kept; that model has: {', '.join(there[:20])}"
        )


def _move_rows(table: Parameter, moves: tuple[Move, ...], with_slots: bool, reader: CheckpointReader) -> None:
    """Rows of a table, chunk by chunk; slots of another optimizer begin as they do for such weights."""
    for name, shards in tensors(table):
        if name != table.name and not with_slots:
            continue
        write = row_writer(shards)
        if name == table.name and not with_slots:
            write = _with_fresh_slots(table, write)
        for part, array in reader.parts(name):
            for start in range(0, len(array), shards[0].chunk_rows):
                values = np.asarray(array[start : start + shards[0].chunk_rows])
                rows = part.part + part.parts * np.arange(start, start + len(values), dtype=np.int64)
                targets = _targets(rows, moves)
                write(targets[targets >= 0], values[targets >= 0])


def _with_fresh_slots(table: Parameter, write_weights: RowWriter) -> RowWriter:
    """Writes weights together with the optimizer state that such weights begin with."""
    writers = [write_weights, *(row_writer(shards) for _, shards in list(tensors(table))[1:])]

    def write(rows: Any, values: Any) -> None:
        fresh = [slot.numpy() for slot in table.rule.initial(tf.constant(values))]
        for write_tensor, content in zip(writers, (values, *fresh), strict=True):
            write_tensor(rows, content)

    return write


def _targets(rows: Any, moves: tuple[Move, ...]) -> Any:
    """Where each of the old `rows` lies now, -1 for those that are dropped."""
    starts = np.array([move.source for move in moves], np.int64)
    ends = starts + [move.size for move in moves]
    shifts = np.array([move.target for move in moves], np.int64) - starts
    place = np.searchsorted(starts, rows, side="right") - 1
    inside = (place >= 0) & (rows < ends[place])
    return np.where(inside, rows + shifts[place], -1)


def _move_dense(
    parameters: Parameters, states: Sequence[ServerState], moves: tuple[Move, ...], with_slots: bool,
    reader: CheckpointReader,
) -> None:  # fmt: skip
    dense = parameters.dense
    now = np.concatenate([state.read_weights()[dense.name] for state in states])
    vector = _apply_moves(now, reader, dense.name, moves)
    values = {dense.name: vector}
    for name, fresh in zip(dense.tensors[1:], dense.rule.initial(tf.constant(vector)), strict=True):
        values[name] = _apply_moves(fresh.numpy(), reader, name, moves) if with_slots else fresh.numpy()
    write_dense(parameters, states, values, reader.url)


def _apply_moves(target: Any, reader: CheckpointReader, tensor: str, moves: tuple[Move, ...]) -> Any:
    """`target` with parts of its last axis taken out of a tensor of the checkpoint."""
    if not moves:
        return target
    result = np.atleast_1d(np.array(target))
    given = np.atleast_1d(reader.whole(tensor, result.dtype.name))
    for move in moves:
        result[..., move.target : move.target + move.size] = given[..., move.source : move.source + move.size]
    return result.reshape(np.shape(target))
