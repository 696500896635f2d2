"""The calls of training processes: splits, readiness, checkpoints, metrics. Pure."""

from __future__ import annotations

import math
from typing import NoReturn

from msgspec.structs import replace

from afo.data.io.bad_records import too_many
from afo.errors import GenerationOver, PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.protocol import export_gate
from afo.rpc import messages as m
from afo_am.policy.stragglers import Stragglers
from afo_am.policy.verdict import decide
from afo_am.state.context import Context
from afo_am.state.tasks import Stage, Task


class TrainingRpc:
    """Part of the core that talks to training processes."""

    def __init__(self, context: Context, stragglers: Stragglers) -> None:
        self._context, self._stragglers = context, stragglers

    def _current(self, task_id: m.TaskId, generation: int) -> Task:
        """The sender, if it still counts. Raises `ProtocolError`."""
        task = self._live(task_id)
        if task_id.role != "evaluator" and generation != self._context.state.generation:
            self._refuse_generation(generation)
        return task

    def _live(self, task_id: m.TaskId) -> Task:
        """The sender, if it is the present attempt of a job that goes on. Raises `ProtocolError`."""
        task = self._context.state.task(task_id)
        if task is None or task.stage is not Stage.REGISTERED or self._context.state.verdict:
            raise ProtocolError(f"attempt {task_id.attempt} of {task_id} has ended")
        return task

    def _refuse_generation(self, generation: int) -> NoReturn:
        now = self._context.state.generation
        if generation > now:  # a disk lost the end of the journal
            raise ProtocolError(f"generation {generation} has not begun; now is {now}")
        raise GenerationOver(f"generation {generation} has ended; now is {now}")

    def servers(self, request: m.ServersRequest) -> m.ServersReply:
        """Where the parameter servers are, for a process that has lost them."""
        task, state = self._live(request.task), self._context.state
        if task.id.role not in ("chief", "worker"):
            raise PermissionDenied(f"{task.id} is no client of the parameter servers")
        if request.known > state.generation:
            self._refuse_generation(request.known)
        if state.chief.stage is Stage.SUCCEEDED:  # a server that is lost now is not replaced
            return m.ServersReply(state="end", generation=state.generation)
        if not state.cluster:
            return m.ServersReply(state="wait", generation=state.generation)
        return m.ServersReply(
            state="run", generation=state.generation, ps=state.ps, splits_at_start=state.splits_at_start
        )

    def want_split(self, request: m.SplitRequest) -> m.SplitReply:
        """A worker wants a file."""
        task = self._current(request.task, request.generation)
        if self._context.state.splits.finished or self._context.state.evaluations.stopping or self._out_of_steps():
            return m.SplitReply(state="end")
        self._keep_held(task, request)
        if task.leaving:
            return m.SplitReply(state="wait")
        lease = self._context.state.splits.forgotten(task.id, request.holding)
        if lease is None:
            lease = self._context.state.splits.peek() if self._context.state.ready else None
            if lease is None:
                self._stragglers.lacks_input(task.id)
                return m.SplitReply(state="wait")
            self._context.record(
                ev.SplitLeased(task=task.id, split=lease.split, epoch=lease.epoch, resume=lease.resume)
            )
        file = self._context.state.files[lease.split]
        return m.SplitReply(
            state="lease", split=lease.split, epoch=lease.epoch, url=file.url, resume=lease.resume, part=file.part,
        )  # fmt: skip

    def _keep_held(self, task: Task, request: m.SplitRequest) -> None:
        """What a worker reads nobody else is given, also where a disk lost the lines that the journal ended with."""
        for split, epoch in zip(request.holding, request.epochs, strict=False):
            if self._context.state.ready and self._context.state.splits.is_free(split, epoch):
                self._context.record(ev.SplitLeased(task=task.id, split=split, epoch=epoch, resume=True))

    def _out_of_steps(self) -> bool:
        limit, state = self._context.state.config.job.train.max_steps, self._context.state
        return limit is not None and max(state.step, self._context.rates.step) - state.first_step >= limit

    def ack_split(self, ack: m.SplitAck) -> m.Empty:
        """A file is applied."""
        task = self._current(ack.task, ack.generation)
        splits = self._context.state.splits
        if not splits.is_repeated(ack.split, ack.epoch, ack.count, ack.xor):
            splits.check(ack.split, ack.epoch, task.id)
            self._context.record(
                ev.SplitDone(
                    task=task.id, split=ack.split, epoch=ack.epoch, count=ack.count, xor=ack.xor, bad=ack.bad,
                    unread=ack.unread, first_bad=ack.first_bad,
                )
            )  # fmt: skip
        self._judge_bad_records(task, ack)
        return m.Empty()

    def _judge_bad_records(self, task: Task, ack: m.SplitAck) -> None:
        allowed, splits = self._context.state.config.job.data.max_bad_records, self._context.state.splits
        if not splits.has_too_many_bad(allowed):
            return
        bad, records = splits.bad_records, splits.records
        place = ack.first_bad or "(in files read before)"
        self._context.record(
            ev.BadRecordsExceeded(task=task.id, bad=bad, records=records, allowed=allowed, place=place)
        )
        text = too_many(bad, records, allowed, "the training files")
        decide(self._context, "FAILED", "data_error", f"{text}; one of them: {place}", task.id)

    def may_start(self, request: m.ReadyRequest) -> m.ReadyReply:
        """May steps begin?"""
        self._current(request.task, request.generation)
        state = self._context.state
        stop = state.evaluations.stopping
        kept = () if state.ready else tuple(state.holders)
        return m.ReadyReply(
            ready=state.ready, restore=state.restore, kept=kept, first_step=state.first_step, stop=stop,
            exported_version=state.evaluations.gate.exported_version,
        )  # fmt: skip

    def chief_ready(self, report: m.ReadyReport) -> m.Empty:
        """The variables are prepared."""
        task = self._chief_only(report.task, report.generation)
        if not self._context.state.ready:
            ready = self._variables_ready(task.id, report)
            self._context.rates.reset(report.step, ready.samples or 0)
            self._context.record(ready)
            if report.warm_start is not None:
                self._context.record(_warm_started(task.id, report, report.warm_start))
        return m.Empty()

    def saving(self, report: m.SavingReport) -> m.Empty:
        """A checkpoint is begun; told once, however often the message comes."""
        task = self._chief_only(report.task, report.generation)
        if self._context.state.saving != report.directory:
            self._context.record(
                ev.CheckpointBegun(
                    task=task.id, generation=report.generation, directory=report.directory, final=report.final
                )
            )
        return m.Empty()

    def _variables_ready(self, task: m.TaskId, report: m.ReadyReport) -> ev.VariablesReady:
        state = self._context.state
        saved = state.splits.samples_at(state.checkpoints.get(report.restored, ()))
        ready = ev.VariablesReady(
            task=task, generation=report.generation, restored=report.restored, step=report.step,
            passed_over=report.passed_over, samples=saved,
        )  # fmt: skip
        if not state.holders:
            return ready
        applied = state.splits.samples_at(report.positions)
        # The copy of a position may lack the batch that was under way.
        lost = max(0, applied - saved)
        return replace(ready, kept=tuple(state.holders), lost_samples=lost, positions=report.positions, samples=applied)

    def report_checkpoint(self, report: m.CheckpointReport) -> m.CheckpointReply:
        """A manifest is written."""
        task = self._chief_only(report.task, report.generation)
        if report.manifest not in self._context.state.checkpoints:
            self._context.record(
                ev.CheckpointWritten(
                    task=task.id, generation=report.generation, step=report.step, manifest=report.manifest,
                    positions=report.positions, final=report.final, hash_tables=report.hash_tables,
                    servers=report.servers,
                )
            )  # fmt: skip
        state = self._context.state
        return m.CheckpointReply(protected=state.evaluations.list_protected(state.checkpoint_steps))

    def next_version(self, request: m.VersionRequest) -> m.VersionReply:
        """The checkpoint that may become a version. It is judged again: one has been exported since, maybe."""
        self._chief_only(request.task, request.generation)
        gate = self._context.state.evaluations.gate
        candidate = gate.candidate
        if candidate is None:
            return m.VersionReply()
        if withheld := gate.withheld(candidate):
            self._context.record(withheld)
            return m.VersionReply()
        return m.VersionReply(manifest=candidate[-1].manifest, metrics=candidate[-1].metrics)

    def report_version(self, report: m.VersionReport) -> m.Empty:
        """A version of the model is exported; told once, however often the message comes."""
        task = self._chief_only(report.task, report.generation)
        state = self._context.state
        if state.evaluations.gate.exported_version != report.version:
            metrics = report.metrics or state.evaluations.metrics_of(report.manifest)
            self._context.record(
                ev.VersionExported(
                    task=task.id, version=report.version, parent=report.parent, step=report.step,
                    manifest=report.manifest, bytes=report.bytes, seconds=report.seconds, metrics=metrics,
                )
            )  # fmt: skip
        return m.Empty()

    def may_export(self, request: m.ExportRequest) -> m.ExportReply:
        """What the chief may export, once the evaluator has measured the final checkpoint."""
        self._chief_only(request.task, request.generation)
        state = self._context.state
        candidate = state.evaluations.candidate
        if candidate is None:
            return m.ExportReply(state="wait")
        decision = state.evaluations.decision(candidate)
        if decision != state.evaluations.decided:
            self._context.record(decision)
        reasons = tuple(export_gate.refusals(decision.checks))
        return m.ExportReply(
            state="export" if decision.allowed else "refused", manifest=decision.manifest, reasons=reasons
        )

    def _chief_only(self, task_id: m.TaskId, generation: int) -> Task:
        task = self._current(task_id, generation)
        if task is not self._context.state.chief:
            raise PermissionDenied(f"{task_id} is not the chief")
        return task

    def report_eval(self, report: m.EvalReport) -> m.Empty:
        """A checkpoint is measured."""
        task = self._current(report.task, report.generation)
        # JSON has no NaN: a metric that is none is left out, or the journal could not be read again.
        finite = {name: value for name, value in report.metrics.items() if math.isfinite(value)}
        self._context.record(
            ev.Evaluated(
                task=task.id, step=report.step, manifest=report.manifest, metrics=finite, final=report.final,
                falls=report.falls, passed_over=report.passed_over,
            )
        )  # fmt: skip
        self._withhold_version()
        self._stop_early(report.step)
        return m.Empty()

    def _withhold_version(self) -> None:
        """Say that the checkpoint measured last becomes no version. What becomes of the final one is decided at the
        end."""
        evaluations = self._context.state.evaluations
        gate = evaluations.gate
        if not gate.export.gates_versions or evaluations.final is not None or not gate.window:
            return
        if gate.is_exported(gate.window[-1].manifest):  # it was measured again
            return
        if withheld := gate.withheld(gate.window):
            self._context.record(withheld)

    def _stop_early(self, step: int) -> None:
        state = self._context.state
        evaluations = state.evaluations
        rule = evaluations.early_stop
        if rule is None or not evaluations.exhausted or evaluations.stopping or state.final_manifest:
            return
        # A metric that was never measured has no best value: NaN could not stand in the journal.
        best = evaluations.peak if evaluations.peak is not None else 0.0
        self._context.record(
            ev.StoppedEarly(step=step, metric=rule.metric, best=best, evaluations=evaluations.without_gain)
        )


def _warm_started(task: m.TaskId, report: m.ReadyReport, begun: m.WarmStart) -> ev.WarmStarted:
    return ev.WarmStarted(
        task=task, generation=report.generation, step=report.step, source=begun.source, passed_over=begun.passed_over,
        kept=begun.kept, made_new=begun.made_new, dropped=begun.dropped,
    )  # fmt: skip
