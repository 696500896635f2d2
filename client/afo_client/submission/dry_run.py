"""Dry run of a submission: what would be sent to the runtime, and what every task of the job would see."""

import json

from afo.job import ROLES, Job, Role
from afo.protocol.task_environment import task_environment
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.plan import Plan


def dry_run(plan: Plan) -> dict[str, object]:
    """The submission context and every task's environment; nothing is sent or started."""
    submitted = plan.am_config
    context = runtime_for(submitted.runtime, plan.config).dry_run(submitted, plan.schema)
    return {"runtime": submitted.runtime, "submission": context, "tasks": _task_previews(submitted.job)}


def _task_previews(job: Job) -> list[dict[str, object]]:
    """TF_CONFIG and environment of each task, as its Child makes them; addresses are known only when the job runs."""
    return [_preview(job, role, index) for role in ROLES if role in job.roles for index in range(job.roles[role].count)]


def _preview(job: Job, role: Role, index: int) -> dict[str, object]:
    spec = job.roles[role]
    environment = task_environment(job, role, index, spec.vcores, inherited={})
    variables = dict(environment.variables)
    return {
        "task": f"{role}:{index}",
        "memory_mib": int(spec.memory),
        "vcores": spec.vcores,
        "gpus": spec.gpus,
        "node_label": spec.node_label,
        "tf_config": json.loads(variables.pop("TF_CONFIG")),
        "environment": variables,
        "removed_from_environment": list(environment.removed),
    }
