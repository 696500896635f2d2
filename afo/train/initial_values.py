"""Initial values of a generation's variables: restored, taken over from an earlier model, or drawn anew."""

from msgspec.structs import replace

from afo.checkpoint.manifest import read_evaluation
from afo.checkpoint.metadata import Origin
from afo.checkpoint.restore import CheckpointReader, from_newest_complete, restore
from afo.checkpoint.warm_start import open_source, take_over
from afo.job import WarmStart
from afo.job_dir.lineage import Ancestry, derive_ancestry
from afo.logs.task_log import LOG, one_line
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.state.parameters import Parameters
from afo.state.position import list_positions
from afo.state.server_state import server_state
from afo.train.setup import Setup


def begin(setup: Setup, parameters: Parameters, origin: Origin, reply: m.ReadyReply) -> m.ReadyReport:
    """Prepare all variables, and `origin` with them; returns what the Application Master is to know.

    Raises NotFound or DataError where there is no model to begin with, DataError for a checkpoint of another model.
    """
    report = m.ReadyReport(task=setup.id, generation=setup.task.generation)
    if reply.restore:
        setup.progress.report(Progress(phase="restoring", generation=setup.task.generation), now=True)
        restored, step, passed_over = _restore_checkpoint(setup, parameters, reply.restore, reply.kept)
        origin.resume(reply.first_step)
        positions = list_positions(server_state(parameters, 0).read_records()["positions"]) if reply.kept else ()
        return replace(report, restored=restored, step=step, positions=positions, passed_over=passed_over)
    setup.progress.report(Progress(phase="initializing", generation=setup.task.generation), now=True)
    setup.model.initialize(parameters)
    warm = setup.job.checkpoint.warm
    if warm is None:
        origin.begin(Ancestry(), 0)
        return report
    return _warm_started(setup, parameters, origin, warm, report)


def _restore_checkpoint(
    setup: Setup, parameters: Parameters, manifest_url: str, kept: tuple[int, ...]
) -> tuple[str, int, tuple[str, ...]]:
    """Out of `manifest_url`, or the newest complete checkpoint before it; all but the servers in `kept`.

    Returns the manifest that was taken, its step, and why others were not.
    """
    taken, step, problems = from_newest_complete(
        manifest_url, setup.task.checkpoint_url, setup.work_dir, lambda reader: restore(parameters, reader, kept)
    )
    for problem in problems:
        LOG.warning("%s; taking %s", one_line(problem), taken)
    return taken, step, tuple(problems)


def _warm_started(
    setup: Setup, parameters: Parameters, origin: Origin, warm: WarmStart, report: m.ReadyReport
) -> m.ReadyReport:
    """`parameters` are initialised already."""
    reader, passed_over = open_source(warm, setup.task.checkpoint_url, setup.work_dir)
    if reader is None:
        origin.begin(Ancestry(), 0)
        return replace(report, warm_start=m.WarmStart(source="", passed_over=passed_over))
    with reader:
        plan = take_over(parameters, origin.sections, reader)
    step = reader.manifest.step
    origin.begin(_ancestry(reader), step, reader.manifest.clock)
    begun = m.WarmStart(
        source=reader.url, passed_over=passed_over, kept=plan.kept, made_new=plan.made_new, dropped=plan.dropped
    )
    return replace(report, step=step, warm_start=begun)


def _ancestry(reader: CheckpointReader) -> Ancestry:
    manifest = reader.manifest
    evaluation = read_evaluation(reader.url)
    if manifest.lineage is None:
        return Ancestry(evaluation=evaluation)
    return derive_ancestry(manifest.lineage, reader.url, manifest.final, evaluation)
