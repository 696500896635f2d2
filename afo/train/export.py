"""Export: which checkpoint, and the SavedModel of it, which serves the trained model with plain TensorFlow."""

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import tensorflow as tf
from msgspec import structs

from afo import storage
from afo.checkpoint.manifest import Refusal, parse_name, write_refusal
from afo.checkpoint.restore import CheckpointReader
from afo.errors import GateRefused
from afo.job import RowType, TableKind
from afo.job.paths import check_name
from afo.models.example_parsing import Parse, parse, parse_by_tensorflow
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.train.setup import JobParts, Setup
from afo.trainable.model_protocol import LocalModel
from afo.trainable.served import export_info
from afo.trainable.served.export_info import Exported
from afo.trainable.served.mapped_columns import few_pages
from afo.trainable.served.table_form import TableForm

#: Time between two questions whether the final checkpoint was measured.
POLL_S = 0.5


def select_manifest(setup: Setup, final_manifest: str, progress: Progress) -> str:
    """The manifest to export; waits for the evaluator if the job wants the best one, or has a quality gate.

    `progress`: the counters of this process, which do not change while it waits.

    Raises GateRefused if `export.require` does not hold, and marks the job's checkpoints, so that no warm start takes
    one of them unasked.
    """
    if not setup.job.export.awaits_evaluation:
        return final_manifest
    request = m.ExportRequest(task=setup.id, generation=setup.task.generation)
    while (reply := setup.master.export(request)).state == "wait":
        setup.progress.report(structs.replace(progress, phase="waiting"))
        time.sleep(POLL_S)
    if reply.state == "refused":
        write_refusal(setup.task.checkpoint_url, Refusal(reply.manifest, reply.reasons))
        raise GateRefused(
            f"the model of step {parse_name(reply.manifest).step} is not exported, as `export.require` does not hold:"
            f" {'; '.join(reply.reasons)}; what was exported before is untouched"
        )
    return reply.manifest


def export(
    parts: JobParts, reader: CheckpointReader, url: str, scratch: Path, rows: RowType, tables: TableKind
) -> None:
    """Write the SavedModel of a checkpoint to `url`, replacing one that is there: all of it is written beside it first,
    and what was there stays until the new model is whole. Raises as `save_model`.
    """
    local = save_model(parts, reader, scratch, describe(parts, reader, rows, tables))
    hidden = upload(local, url)
    storage.delete(url, recursive=True)
    storage.rename(hidden, url)


def describe(parts: JobParts, reader: CheckpointReader, rows: RowType, tables: TableKind) -> Exported:
    """What goes with a whole SavedModel of a checkpoint."""
    saved = reader.manifest
    return Exported(
        manifest=reader.url, step=saved.step, labels=parts.model.labels, rows=rows, tables=tables,
        lineage=saved.lineage, directory=saved.directory, trained_at=saved.clock[-1][0] if saved.clock else None,
    )  # fmt: skip


def save_model(parts: JobParts, reader: CheckpointReader, scratch: Path, about: Exported) -> Path:
    """The SavedModel of a checkpoint in a directory of `scratch`.

    Signatures: `serving_default` takes `examples` (string [B], serialized tf.Example), `predict` takes the features by
    name ([B, values] each). Both give `probabilities`: [B] of one label; of several [B, labels], and beside it [B] by
    the name of each label. Where it comes from goes with it (`trainable.export_info`). Raises DataError where its rows
    cannot hold the weights, Unsupported for native tables where the operations cannot run, StorageError where `scratch`
    has no room for files.
    """
    local, files = scratch / "export", scratch / "tables"
    for folder in (local, files):
        shutil.rmtree(folder, ignore_errors=True)
    model = parts.model.local(reader, _form(about.rows, about.tables, files))
    # Who serves native tables has our operations, whose parser is safe with records of strangers.
    by = parse if files.is_dir() else parse_by_tensorflow
    with few_pages():
        tf.saved_model.save(model, str(local), signatures=_signatures(model, about.labels, parts, by))
    shutil.rmtree(files, ignore_errors=True)
    place = local.joinpath(*export_info.FILE)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(msgspec.json.encode(about))
    return local


def _form(rows: RowType, tables: TableKind, files: Path) -> TableForm:
    if tables == "frozen":
        return TableForm(rows, only_saved=True)
    return TableForm(rows, files, only_saved=True, stays_mapped=tables == "mapped")


def upload(local: Path, url: str) -> str:
    """Bring what `save_model` made beside `url`, where it takes a rename to be there; returns where it is.

    The name matches no pattern, and is the same for each try of a job, so that one clears up after another.
    """
    source = export_info.read(str(local))
    owner = check_name(source.lineage.own.job_id, source.manifest) if source.lineage else "model"
    hidden = storage.join(storage.parent(url), f".{storage.name(url)}.{owner}.tmp")
    storage.delete(hidden, recursive=True)
    for path in sorted(local.rglob("*")):
        if path.is_file():
            storage.upload(str(path), storage.join(hidden, *path.relative_to(local).parts))
    shutil.rmtree(local)
    return hidden


def _signatures(model: LocalModel, labels: tuple[str, ...], parts: JobParts, by: Parse) -> dict[str, Any]:
    def probabilities(features: dict[str, Any]) -> dict[str, Any]:
        found = model.probabilities(features)
        if len(labels) == 1:
            return {"probabilities": found[:, 0]}
        return {**dict(zip(labels, tf.unstack(found, axis=1), strict=True)), "probabilities": found}

    def from_examples(examples: Any) -> dict[str, Any]:
        return probabilities(parts.parser.inputs(examples, by))

    def from_features(**features: Any) -> dict[str, Any]:
        return probabilities({name: features[argument] for name, argument in parts.schema.arguments.items()})

    examples = tf.TensorSpec([None], tf.string, name="examples")
    specs = parts.parser.specs
    features = {
        argument: tf.TensorSpec.from_spec(specs[name], name=argument)
        for name, argument in parts.schema.arguments.items()
    }
    return {
        "serving_default": tf.function(from_examples, autograph=False).get_concrete_function(examples),
        "predict": tf.function(from_features, autograph=False).get_concrete_function(**features),
    }
