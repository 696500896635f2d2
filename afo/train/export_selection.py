"""Selection of the checkpoint to export, if it takes the evaluator to say so."""

import time

from msgspec import structs

from afo.checkpoint.manifest import Refusal, parse_name, write_refusal
from afo.errors import GateRefused
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.train.setup import Setup

#: Time between two questions whether the final checkpoint was measured.
POLL_S = 0.5


def chosen(setup: Setup, final_manifest: str, progress: Progress) -> str:
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
