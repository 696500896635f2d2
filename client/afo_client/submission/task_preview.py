"""Preview of what every task of a job would see: for `afo submit --dry-run`."""

import json

from afo.job import ROLES, Job, Role
from afo.protocol.task_environment import task_environment


def task_previews(job: Job) -> list[dict[str, object]]:
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
