"""The chief's work beside training: prepare the variables, save them, write summaries, export."""

import signal
import time

from msgspec import structs

from afo.checkpoint.manifest import find_manifests, parse_name, remove_old, remove_unfinished
from afo.checkpoint.metadata import Origin
from afo.checkpoint.restore import CheckpointReader
from afo.checkpoint.save import CheckpointWriter
from afo.checkpoint.warm_start import rules_of
from afo.errors import AfoError
from afo.logs.task_log import LOG, one_line
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.state.parameters import Parameters
from afo.state.position import list_positions
from afo.train.exports.export import export, select_manifest
from afo.train.exports.incremental_export import Versions, export_version
from afo.train.exports.periodic_export import PeriodicExport, versions_between
from afo.train.exports.version_reports import VersionReports
from afo.train.initial_values import begin
from afo.train.setup import Setup
from afo.train.summaries import Summaries

#: Time between two points of a curve.
SUMMARY_S = 5.0


class Chief:
    """The duties of the one worker that is chief."""

    def __init__(self, setup: Setup, parameters: Parameters) -> None:
        self._setup = setup
        self._parameters = parameters
        task, job = setup.task, setup.job
        self._origin = Origin(task, rules_of(parameters), setup.model.sections(parameters))
        self._writer = CheckpointWriter(
            parameters, task.checkpoint_url, setup.work_dir, task.generation, self._origin, job.checkpoint.full_every
        )
        self._keep = job.checkpoint.keep
        self._every_s = min(float(job.checkpoint.every), job.train.eval_every.seconds or float("inf"))
        #: Where evaluations go by steps.
        self._eval_every = job.train.eval_every if job.train.eval_every.steps else None
        self._summaries = Summaries(task.summary_url, f"train-g{task.generation}-a{task.attempt}", setup.work_dir)
        self._saved_at = self._summarised_at = time.monotonic()
        self._summarised: tuple[int, float, float] = (0, 0.0, 0.0)
        self._saved_step = -1
        #: Step of the last checkpoint that was there for the evaluator.
        self._eval_step = 0
        self._save_wanted = False
        self._reports = VersionReports(setup)
        self._exports = PeriodicExport(setup, self._reports)
        # `afo checkpoint now`, by way of the Child.
        signal.signal(signal.SIGUSR1, self._want_save)

    def prepare(self, reply: m.ReadyReply) -> int:
        """Give the variables their first values and tell the AM; returns the step that the job itself began with."""
        self._remove_unfinished()
        self._setup.master.report_ready(begin(self._setup, self._parameters, self._origin, reply))
        self._reports.begin(reply.exported_version)
        self._saved_at = time.monotonic()
        self._find_eval_step()
        return self._origin.first_step

    def resume(self, reply: m.ReadyReply) -> None:
        """The variables were prepared before, by an earlier process of this task."""
        self._remove_unfinished()
        self._origin.resume(reply.first_step)
        self._reports.begin(reply.exported_version)
        self._find_eval_step()

    def _remove_unfinished(self) -> None:
        """What a chief that was killed while it saved has begun: nobody else removes it while the generation lasts."""
        try:
            remove_unfinished(self._setup.task.checkpoint_url, self._setup.task.generation)
        except AfoError as error:
            LOG.warning("what there is of unfinished checkpoints stays: %s", one_line(str(error)))

    def _find_eval_step(self) -> None:
        if self._eval_every is None:
            return
        # What others passed while the chief was away is made up for.
        newest = next(reversed(find_manifests(self._setup.task.checkpoint_url)), None)
        self._eval_step = max(self._origin.first_step, newest.step if newest else 0)

    def is_save_due(self, step: int) -> bool:
        """Whether `after_step` of this step will save."""
        due = self._save_wanted or time.monotonic() - self._saved_at >= self._every_s or self._is_to_be_evaluated(step)
        return due and step > self._saved_step

    def after_step(self, progress: Progress) -> None:
        """Save and summarise when it is time."""
        now = time.monotonic()
        if now - self._summarised_at >= SUMMARY_S and progress.step:
            self._summarise(progress, now - self._summarised_at)
            self._summarised_at = now
        if self.is_save_due(progress.step):
            self._save_wanted = False
            _, report = self._write(progress, final=False)
            self._remove_old((*self._tell(report), *self._exports.protected))
            self._saved_at = time.monotonic()
            self._exports.note_checkpoint()
        self._exports.look()

    def _is_to_be_evaluated(self, step: int) -> bool:
        return self._eval_every is not None and self._eval_every.is_passed(self._eval_step, step)

    def finish(self, progress: Progress) -> int:
        """The last checkpoint and, out of it or of the best, the SavedModel; returns the steps of all workers.

        `progress`: the counters of this process, to be reported as exporting.
        Raises GateRefused where the model is not good enough.
        """
        if progress.step:
            self._summarise(progress, time.monotonic() - self._summarised_at)
        self._exports.close()
        url, report = self._write(progress, final=True)
        setup = self._setup
        self._tell(report)
        progress = structs.replace(progress, step=report.step)
        exported = select_manifest(setup, url, progress)
        setup.progress.report(progress, now=True)
        place = self._export(exported)
        LOG.info("exported %s to %s", exported, place)
        self._remove_old((exported,))
        return report.step

    def leave(self) -> None:
        """End what goes on beside training: another generation has a chief of its own, in this process."""
        self._exports.close()
        self._summaries.close()

    def _export(self, manifest: str) -> str:
        """Write the model, or its last version, and report that; returns where it is."""
        setup, wanted, url = self._setup, self._setup.job.export, self._setup.task.export_url
        with CheckpointReader(manifest, setup.work_dir, setup.memory) as reader:
            if wanted.every is None:
                export(setup, reader, url, setup.work_dir, wanted.rows, wanted.tables, wanted.user_features)
                return url
            versions, began = Versions(url, versions_between(wanted), wanted.keep), time.monotonic()
            version, size, _ = export_version(
                setup, reader, versions, setup.work_dir, wanted.rows, wanted.tables, wanted.user_features
            )
        seconds = time.monotonic() - began
        self._reports.report(parse_name(manifest), version.number, version.exported.parent, size, seconds)
        return version.url

    def _tell(self, report: m.CheckpointReport) -> tuple[str, ...]:
        """Report a checkpoint; returns the manifests that must stay."""
        return self._setup.master.report_checkpoint(report).protected

    def _remove_old(self, protected: tuple[str, ...]) -> None:
        for problem in remove_old(self._setup.task.checkpoint_url, self._keep, protected):
            LOG.warning("%s; it is left as it is", one_line(problem))

    def _want_save(self, _number: int, _frame: object) -> None:
        self._save_wanted = True

    def _write(self, progress: Progress, *, final: bool) -> tuple[str, m.CheckpointReport]:
        setup = self._setup
        setup.progress.report(structs.replace(progress, phase="saving"), now=True)
        directory = self._writer.begin()
        setup.master.report_saving(
            m.SavingReport(task=setup.id, generation=setup.task.generation, directory=directory, final=final)
        )
        began = time.monotonic()
        saved = self._writer.save(directory, final=final)
        LOG.info("checkpoint of step %s, %.1f s: %s", f"{saved.step:,}", time.monotonic() - began, saved.url)
        self._saved_step = self._eval_step = saved.step
        if saved.hash_tables is not None:
            self._summaries.write(saved.step, _of_tables(saved.hash_tables))
        self._summaries.publish()
        return saved.url, m.CheckpointReport(
            task=setup.id,
            generation=setup.task.generation,
            step=saved.step,
            manifest=saved.url,
            positions=list_positions(saved.positions),
            final=final,
            hash_tables=saved.hash_tables,
            servers=saved.servers,
        )

    def _summarise(self, progress: Progress, seconds: float) -> None:
        samples, waited, worked = self._summarised
        scalars = {
            "train/samples_per_s": (progress.samples - samples) / max(seconds, 1e-9),
            "train/input_wait": (progress.input_wait.total - waited) / max(progress.step_s - worked, 1e-9),
        }
        if progress.loss is not None:
            scalars["train/loss"] = progress.loss
        self._summaries.write(progress.step, scalars)
        self._summarised = progress.samples, progress.input_wait.total, progress.step_s


def _of_tables(tables: m.HashTables) -> dict[str, float]:
    return {
        "hash_tables/rows": float(tables.rows),
        "hash_tables/mib": tables.bytes / 2**20,
        "hash_tables/evicted": float(tables.evicted),
    }
