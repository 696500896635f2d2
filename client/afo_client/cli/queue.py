"""`afo queue`."""

import click
import msgspec
import psutil

from afo.formats.units import Memory
from afo.job import Job
from afo.site.config import load_config, user_name
from afo.yarn import resource_manager
from afo.yarn.queues import Queue, Resource, with_waiting
from afo.yarn.resource_manager import ClusterNode, ResourceManager
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.capacity import Capacity, capacities, verdict
from afo_client.jobs.ref import JobRef, find_job
from afo_client.runtimes.application import Application
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.submitted import submitted_config
from afo_client.terminal.console import pluralize, print_json, print_result, size_text, table


@click.command(
    help="Show the YARN queue of a job: what it may have, what is used and what waits, and whether the job's "
    "containers fit the largest free node. JOB left out: the one submitted last.",
    epilog=examples("afo queue", "afo queue application_1700000000000_0001", "afo queue --name root.ads"),
)
@click.argument("job", required=False, type=JobType())
@click.option("--name", metavar="QUEUE", help="This queue, whatever job was submitted last.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str | None, name: str | None, as_json: bool) -> None:
    """Show a queue; the exit code is 0 whether there is room or not."""
    config = load_config()
    if name is not None and job is None:
        _show(None, _find_queue(_manager(), name), [], _manager().nodes(), as_json)
        return
    ref = find_job(config, job)
    submitted = submitted_config(config, ref)
    wanted = submitted.job if submitted else None
    if ref.runtime == "local":
        _show_local(ref, wanted, as_json)
        return
    manager, application = _manager(), runtime_for(ref.runtime, config).application(ref.job_id)
    nodes = manager.nodes()
    queue = _find_queue(manager, name or application.queue)
    _show(application, queue, capacities(wanted, nodes) if wanted else [], nodes, as_json)


def _manager() -> ResourceManager:
    return resource_manager.from_configuration(user_name())


def _find_queue(manager: ResourceManager, name: str) -> Queue:
    """A queue by its path or its last part, all that wait counted; of that name where a scheduler has no queues."""
    from afo_client.runtimes.yarn.preflight import check_queue

    queues = manager.queues()
    found = [queue for queue in queues if name in (queue.path, queue.name)]
    if not found:
        check_queue(name, queues)
    return with_waiting(found[0], manager.waiting_in(found[0])) if found else Queue(path=name)


def _show(
    application: Application | None, queue: Queue, needed: list[Capacity], nodes: list[ClusterNode], as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "application_id": application.job_id if application else None,
                "state": application.state if application else None,
                "diagnostics": application.diagnostics if application else "",
                "queue": {"path": queue.path, "state": queue.state, **_use_fields(queue)},
                "nodes": len(nodes),
                "containers": [msgspec.to_builtins(room) for room in needed],
            }
        )
    else:
        print_result("\n".join([*_queue_lines(queue, nodes), *_job_lines(application, needed)]))


def _use_fields(queue: Queue) -> dict[str, object]:
    use = queue.use
    sizes = {name: getattr(use, name) for name in ("guaranteed", "most", "used", "pending")}
    return {
        **{name: {"memory_mib": size.memory, "vcores": size.vcores} if size else None for name, size in sizes.items()},
        "pending_containers": use.pending_containers, "applications": {"active": use.active, "waiting": use.waiting},
    }  # fmt: skip


def _queue_lines(queue: Queue, nodes: list[ClusterNode]) -> list[str]:
    use = queue.use
    shown = {
        "guaranteed": _size(use.guaranteed), "may grow to": _size(use.most), "used": _size(use.used),
        "waiting": _size(use.pending) + (
            f" in {pluralize(use.pending_containers, 'container')}" if use.pending_containers else ""
        ),
        "applications": "" if use.active is None else f"{use.active} running, {use.waiting or 0} waiting",
    }  # fmt: skip
    free = Memory(sum(node.memory_free for node in nodes))
    lines = [f"{queue.path} {queue.state}", *(f"  {name}: {text}" for name, text in shown.items() if text)]
    return [*lines, f"  free on {pluralize(len(nodes), 'node')}: {free if free else 'nothing'}"]


def _size(size: Resource | None) -> str:
    if size is None:
        return ""
    return f"{Memory(size.memory)}, {pluralize(size.vcores, 'vcore')}" if size.memory else "nothing"


def _job_lines(application: Application | None, needed: list[Capacity]) -> list[str]:
    if application is None:
        return []
    words = f": {application.diagnostics}" if application.diagnostics else ""
    lines = [f"{application.job_id} {application.final or application.state}{words}"]
    if not needed:
        return [*lines, "its containers are not known yet: its Application Master has not started"]
    if application.final:
        lines.append("it has ended; if its containers were requested again now:")
    rows = [
        (room.role, str(room.instances), str(Memory(room.memory)), str(room.vcores), verdict(room)) for room in needed
    ]
    return [*lines, table(("ROLE", "INSTANCES", "MEMORY", "VCORES", "FITS ONE NODE NOW"), rows)]


def _show_local(ref: JobRef, job: Job | None, as_json: bool) -> None:
    """This machine has no queue: containers are processes that start at once."""
    free = psutil.virtual_memory().available
    needed = sum(spec.memory * spec.count for spec in job.roles.values()) + job.am.memory if job else 0
    if as_json:
        print_json({"application_id": ref.job_id, "queue": None, "runtime": "local", "free_bytes": free,
                    "needed_mib": needed})  # fmt: skip
        return
    words = f"{ref.job_id} runs on this machine, which has no queue: its containers start at once. "
    print_result(words + f"They may use {Memory(needed)} in all; {size_text(free)} of memory are free.")
