"""`afo validate`."""

import click

from afo.job import ROLES, Job, RoleSpec
from afo.job.loader import parse_variables, places_of, read_job
from afo.site.config import RUNTIMES, load_config
from afo.site.limits import Total, total
from afo_client.cli.options import examples
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.inspection import Inspection, on_this_machine
from afo_client.submission.plan import check_job, make_am_config
from afo_client.submission.record_count import steps_of
from afo_client.submission.trial import try_job
from afo_client.terminal.console import pluralize, print_json, print_result, size_text


@click.command(
    help="Check a job file and its inputs, and show what would run.",
    epilog=examples("afo validate job.yaml", "afo validate job.yaml --runtime yarn --set roles.ps.instances=4"),
)
@click.argument("job_file", metavar="JOB_FILE", type=click.Path())
@click.option("--set", "settings", multiple=True, metavar="a.b=c", help="Replace a value of the job file.")
@click.option("--var", "variables", multiple=True, metavar="name=value", help="Set a variable of the job file.")
@click.option("--runtime", type=click.Choice(RUNTIMES), help="Where it would run.")
@click.option("--trial/--no-trial", default=True, help="Build the model and try its first step (default).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    job_file: str, settings: tuple[str, ...], variables: tuple[str, ...], runtime: str | None, trial: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Check without submitting."""
    config = load_config(runtime)
    given = parse_variables(variables)
    job, source = read_job(job_file, settings=settings, variables=given, below=config.defaults)
    job, found = check_job(config, job)
    submitted = make_am_config(config, job, found, source)
    runtime_for(submitted.runtime, config).check(submitted, found.schema_text.decode())
    if trial:
        found = try_job(job, found, local=config.runtime.value == "local")
    if as_json:
        facts = {"inherited": places_of(source), **_facts(job, found)}
        print_json({"valid": True, "name": job.name, "runtime": config.runtime.value, **facts})
    else:
        print_result(plan_text(submitted.job, found, config.runtime.value))
        for key, place in places_of(source).items():
            print_result(f"  {key}: {place}")


def plan_text(job: Job, found: Inspection, runtime: str) -> str:
    """What would run, in a few lines; `job` as its Application Master is told of it."""
    roles = [
        f"  {role} × {spec.count}: {spec.memory}, {pluralize(spec.vcores, 'vcore')}{_special(spec)} each"
        for role, spec in ((role, job.roles[role]) for role in ROLES if role in job.roles)
    ]
    lines = [f"{job.name} on {runtime}", *roles, f"  AM: {job.am.memory}, {pluralize(job.am.vcores, 'vcore')}"]
    if job.environment.docker is not None:
        lines.append(f"  tasks in {job.environment.docker.image}")
    lines.append(f"  together, with the AM's: {_size(total(job))}")
    lines += [f"  runs {' '.join((job.program, *job.args))}"] if job.program else _data_lines(job, found)
    for place in on_this_machine(job) if runtime == "yarn" else ():
        lines.append(f"  warning: {place} is a local path; every node must see the same directory there")
    lines += [f"  warning: {warning}" for warning in found.warnings]
    return "\n".join(lines)


def _data_lines(job: Job, found: Inspection) -> list[str]:
    lines = [
        f"  {name}: {pluralize(len(files), 'file')}, {size_text(sum(file.size for file in files))}"
        for name, files in (("train", found.train), ("eval", found.eval))
    ]
    if len(found.splits) > len(found.train):
        lines[0] += f", in {pluralize(len(found.splits), 'split')}"
    lines.append(f"  {pluralize(job.data.epochs, 'epoch')}, batches of {job.data.batch_size}{_steps(job, found)}")
    if found.pooled:
        lines.append(f"  pooled on the parameter servers: {', '.join(found.pooled)}")
    lines += [f"  waits for {place}" for place in found.awaited]
    if job.checkpoint.warm is not None:
        lines.append(f"  begins with {found.warm_start or 'nothing: no source of its warm start holds a checkpoint'}")
    lines += _trial_lines(found)
    if found.inferred:
        lines.append(
            "  no `data.schema`: the job goes by this one, inferred from the first records. Look at it, and keep"
        )
        lines.append("  it in a file that `data.schema` names, or tomorrow's records may lead to another:")
        lines += [f"    {line}" for line in found.schema_text.decode().splitlines()]
    return lines


def _steps(job: Job, found: Inspection) -> str:
    schedule, made = job.optimizer.schedule, steps_of(job, found.records)
    about = "" if made is None else f": about {pluralize(made, 'step')}"
    if not schedule.steps or not schedule.cooldown:
        return about
    start = round(schedule.steps * (1 - schedule.cooldown))
    return f"{about}; the learning rate falls from step {start:,} to {schedule.steps:,}"


def _trial_lines(found: Inspection) -> list[str]:
    if found.untried:
        return [f"  its first step was not tried on this machine: {found.untried}"]
    if found.trial is None:
        return []
    samples = pluralize(found.trial.samples, "sample")
    if found.trial.loss is None:
        return [f"  built with its first step for {samples}; not run, as its dense tables are too large for a trial"]
    return [f"  its first step was tried on {samples}: loss {found.trial.loss:.4g}"]


def _special(spec: RoleSpec) -> str:
    gpus = f", {pluralize(spec.gpus, 'GPU')}" if spec.gpus else ""
    return f"{gpus}, on nodes with the label {spec.node_label!r}" if spec.node_label else gpus


def _size(total: Total) -> str:
    gpus = f", {pluralize(total.gpus, 'GPU')}" if total.gpus else ""
    return f"{pluralize(total.containers, 'container')}, {total.memory}, {pluralize(total.vcores, 'vcore')}{gpus}"


def _facts(job: Job, found: Inspection) -> dict[str, object]:
    containers, memory, vcores, gpus = total(job)
    return {
        "roles": {
            role: {"instances": spec.count, "memory_mib": int(spec.memory), "vcores": spec.vcores, "gpus": spec.gpus}
            for role, spec in job.roles.items()
        },
        "containers": containers,
        "memory_mib": int(memory),
        "vcores": vcores,
        "gpus": gpus,
        "train": {
            "files": len(found.train),
            "bytes": sum(file.size for file in found.train),
            "splits": len(found.splits),
        },
        "eval": {"files": len(found.eval), "bytes": sum(file.size for file in found.eval)},
        "pooled_on_servers": list(found.pooled),
        "warm_start": found.warm_start,
        "warnings": list(found.warnings),
        "trial": None if found.trial is None else {"samples": found.trial.samples, "loss": found.trial.loss},
        "untried": found.untried,
    }
