"""Export: which checkpoint, and the SavedModel of it, which serves the trained model with plain TensorFlow."""

import shutil
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from math import isinf
from pathlib import Path
from typing import Any

import msgspec
import tensorflow as tf
from msgspec import structs

from afo import storage
from afo.checkpoint.manifest import Refusal, parse_name, write_refusal
from afo.checkpoint.restore import CheckpointReader
from afo.data.schema import Schema
from afo.errors import GateRefused
from afo.job import RowType, TableKind
from afo.job.paths import check_name
from afo.models.example_parsing import Parse, parse, parse_by_tensorflow
from afo.models.user_cut import check_user_features
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.train.setup import JobParts, Setup
from afo.trainable.model_protocol import LocalModel
from afo.trainable.served import export_info
from afo.trainable.served.export_info import Exported, Fill
from afo.trainable.served.mapped_columns import few_pages
from afo.trainable.served.table_form import TableForm

#: Time between two questions whether the final checkpoint was measured.
POLL_S = 0.5
_SENDERS = 8


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
    parts: JobParts, reader: CheckpointReader, url: str, scratch: Path, rows: RowType, tables: TableKind,
    user_features: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """Write the SavedModel of a checkpoint to `url`, replacing one that is there: all of it is written beside it first,
    and what was there stays until the new model is whole. Raises as `save_model`.
    """
    about = describe(parts, reader, rows, tables, user_features)
    local = save_model(parts, reader, scratch, about)
    hidden = _hidden_name(url, about)
    storage.delete(hidden, recursive=True)
    upload(local, hidden)
    storage.delete(url, recursive=True)
    storage.rename(hidden, url)


def _hidden_name(url: str, source: Exported) -> str:
    """A name that no pattern matches; the same for each try of a job, so that one clears up after another."""
    owner = check_name(source.lineage.own.job_id, source.manifest) if source.lineage else "model"
    return storage.join(storage.parent(url), f".{storage.name(url)}.{owner}.tmp")


def describe(
    parts: JobParts, reader: CheckpointReader, rows: RowType, tables: TableKind, user_features: tuple[str, ...]
) -> Exported:
    """What goes with a whole SavedModel of a checkpoint. Raises SpecError for `user_features` that will not do."""
    check_user_features(parts.schema, parts.model.labels, user_features, "$.export.user_features")
    saved = reader.manifest
    return Exported(
        manifest=reader.url, step=saved.step, labels=parts.model.labels, rows=rows, tables=tables,
        user_features=user_features, fills=_fills(parts.schema), lineage=saved.lineage, directory=saved.directory,
        trained_at=saved.clock[-1][0] if saved.clock else None,
    )  # fmt: skip


def _fills(schema: Schema) -> dict[str, Fill]:
    """What a parser takes where a record lacks a feature, by the feature's name in the signature `predict`."""
    found = {}
    for name, argument in schema.arguments.items():
        feature = schema[name]
        values = feature.defaults()
        one_for_all = all(value is values[0] for value in values)
        if not any(isinstance(value, float) and isinf(value) for value in values):  # JSON has none
            found[argument] = Fill(tuple(values[:1] if one_for_all else values), feature.max_length is not None)
    return found


def save_model(parts: JobParts, reader: CheckpointReader, scratch: Path, about: Exported) -> Path:
    """The SavedModel of a checkpoint in a directory of `scratch`.

    Signatures: `serving_default` takes `examples` (string [B], serialized tf.Example), `predict` takes the features by
    name ([B, values] each). Both give `probabilities`: [B] of one label; of several [B, labels], and beside it [B] by
    the name of each label. With `user_features` there is `score` as well: of `user` (string [1], serialized tf.Example
    with these features) and `items` (string [n], with the others) it gives the same for n. Where it comes from goes
    with it (`trainable.export_info`). Raises DataError where its rows cannot hold the weights, Unsupported for native
    tables where the operations cannot run, StorageError where `scratch` has no room for files.
    """
    local, files = scratch / "export", scratch / "tables"
    for folder in (local, files):
        shutil.rmtree(folder, ignore_errors=True)
    model = parts.model.local(reader, _form(about.rows, about.tables, files))
    # Who serves native tables has our operations, whose parser is safe with records of strangers.
    by = parse if files.is_dir() else parse_by_tensorflow
    with few_pages():
        signatures = _signatures(model, about.labels, parts, by)
        if about.user_features:
            signatures["score"] = _score(model, about.labels, parts, by, frozenset(about.user_features))
        tf.saved_model.save(model, str(local), signatures=signatures)
    shutil.rmtree(files, ignore_errors=True)
    place = local.joinpath(*export_info.FILE)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(msgspec.json.encode(about))
    return local


def _form(rows: RowType, tables: TableKind, files: Path) -> TableForm:
    if tables == "frozen":
        return TableForm(rows, only_saved=True)
    return TableForm(rows, files, only_saved=True, stays_mapped=tables == "mapped")


def upload(local: Path, url: str) -> None:
    """Move what `save_model` made to `url`, a name that no pattern matches; a rename makes it a model.

    Several files at once: to close one in HDFS takes up to half a second, however small it is. After the first that
    cannot be sent no other is begun.
    """
    files = sorted(path for path in local.rglob("*") if path.is_file())
    with ThreadPoolExecutor(_SENDERS, thread_name_prefix="export") as pool:
        sent = [
            pool.submit(storage.upload, str(path), storage.join(url, *path.relative_to(local).parts)) for path in files
        ]
        done, _ = wait(sent, return_when=FIRST_EXCEPTION)
        for each in sent:
            each.cancel()
    for each in done:
        each.result()
    shutil.rmtree(local)


def _signatures(model: LocalModel, labels: tuple[str, ...], parts: JobParts, by: Parse) -> dict[str, Any]:
    def from_examples(examples: Any) -> dict[str, Any]:
        return _outputs(model.probabilities(parts.parser.inputs(examples, by)), labels)

    def from_features(**features: Any) -> dict[str, Any]:
        given = {name: features[argument] for name, argument in parts.schema.arguments.items()}
        return _outputs(model.probabilities(given), labels)

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


def _score(
    model: LocalModel, labels: tuple[str, ...], parts: JobParts, by: Parse, user_features: frozenset[str]
) -> Any:
    """The signature of one user and n items."""
    for_one, of_items = model.for_one_user(user_features), frozenset(parts.schema.names) - user_features

    def from_user_and_items(user: Any, items: Any) -> dict[str, Any]:
        # A session does not hold what it is fed against the shape of the signature.
        with tf.name_scope("parse_user"):
            of_user = parts.parser.inputs(tf.ensure_shape(user, [1]), by, user_features)
        with tf.name_scope("parse_items"):
            of_each = parts.parser.inputs(items, by, of_items)
        return _outputs(for_one.probabilities(of_user, of_each), labels)

    user, items = tf.TensorSpec([1], tf.string, name="user"), tf.TensorSpec([None], tf.string, name="items")
    return tf.function(from_user_and_items, autograph=False).get_concrete_function(user, items)


def _outputs(probabilities: Any, labels: tuple[str, ...]) -> dict[str, Any]:
    """Of a signature, by name."""
    if len(labels) == 1:
        return {"probabilities": probabilities[:, 0]}
    by_label = dict(zip(labels, tf.unstack(probabilities, axis=1), strict=True))
    return {**by_label, "probabilities": probabilities}
