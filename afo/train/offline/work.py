"""Work of `python -m afo.train.offline TASK_JSON`: evaluate, predict or export with a saved model, recount the training
data, or try a job's first step, without a cluster.

Exit code 0, whatever came of it: the result, or the error, is in a file beside the task (`afo.protocol.offline_task`).
"""

import os
from pathlib import Path

import msgspec

from afo.checkpoint.restore import CheckpointReader
from afo.data.io.split_files import SplitFile
from afo.errors import AfoError
from afo.formats import json_file
from afo.ops import library
from afo.process.lifetime import die_with_parent
from afo.protocol.offline_task import RESULT, OfflineResult, OfflineTask
from afo.train import trial_step
from afo.train.exports.export import export
from afo.train.exports.incremental_export import Versions, export_version
from afo.train.offline.prediction import Prediction
from afo.train.offline.recount import Recount
from afo.train.offline.scoring import Scorer
from afo.train.setup import JobParts
from afo.trainable.served.table_form import TableForm


def main(arguments: list[str]) -> int:
    """Run the task in the file that `arguments` name."""
    die_with_parent(os.getppid())
    task = json_file.read(arguments[0], OfflineTask)
    try:
        result = run(task)
    except AfoError as error:
        result = OfflineResult(error=(type(error).__name__, str(error)))
    Path(task.work_dir, RESULT).write_bytes(msgspec.json.encode(result))
    return 0


def run(task: OfflineTask) -> OfflineResult:
    """Raises AfoError."""
    parts, scratch = JobParts(task.job, task.schema_file), Path(task.work_dir)
    if task.kind == "recount":
        return OfflineResult(splits=tuple(Recount(parts, scratch).splits(task.files)))
    if task.kind == "try":
        trial_step.bound_memory(task.job)
        return OfflineResult(trial=trial_step.run(parts, task.files, scratch))
    memory = task.memory if task.kind == "export" or library.load_if_present() is not None else None
    with CheckpointReader(task.manifest, scratch, memory) as reader:
        if task.kind == "export":
            return _export(parts, reader, task)
        model = parts.model.local(reader, TableForm(task.rows))
        in_files = reader.is_large
    if task.kind == "evaluate":
        scorer = Scorer(parts.schema, parts.parser, task.job.data, scratch)
        found = scorer.evaluate(model, [SplitFile(file.url, 0) for file in task.files])
        return OfflineResult(metrics=found.metrics, coverage=found.coverage, in_files=in_files)
    prediction = Prediction(parts.schema, parts.parser, task.job.data, model, scratch)
    return OfflineResult(parts=tuple(prediction.write(task.files, task.output)), in_files=in_files)


def _export(parts: JobParts, reader: CheckpointReader, task: OfflineTask) -> OfflineResult:
    scratch = Path(task.work_dir)
    if task.full_every == 0:
        export(parts, reader, task.output, scratch, task.rows, task.tables, task.user_features)
        return OfflineResult(in_files=reader.is_large)
    versions = Versions(task.output, task.full_every, task.keep)
    written = export_version(parts, reader, versions, scratch, task.rows, task.tables, task.user_features)
    return OfflineResult(
        in_files=reader.is_large, version=written.version.number, parent=written.version.exported.parent,
        bytes=written.bytes, why_whole=written.why_whole,
    )  # fmt: skip
