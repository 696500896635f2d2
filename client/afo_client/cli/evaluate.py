"""`afo evaluate`."""

from collections.abc import Callable

import click

from afo import storage
from afo.errors import NotFound, UsageError
from afo.job import ROW_TYPES, RowType
from afo.protocol.offline_task import OfflineResult
from afo.site.config import Config, load_config
from afo_client.cli.options import examples, memory_option
from afo_client.models.offline import SavedModel, input_files, run, saved_model
from afo_client.terminal.console import print_json, print_result, say, table


@click.command(
    help="Evaluate a saved model on this machine: AUC, log loss, calibration, and the share of the records that hold "
    "each feature. MODEL is a job, a directory of checkpoints, a manifest or an exported model; left out: the job "
    "submitted last. An exported model is evaluated with its embedding tables as exported.",
    epilog=examples("afo evaluate", "afo evaluate models/2026-11-07 --data 'clicks/2026-11-08/part-*' --json"),
)
@click.argument("model", required=False)
@click.option("--data", "globs", multiple=True, metavar="GLOB", help="Files; left out: those in the job's data.eval.")
@click.option("--rows", type=click.Choice(ROW_TYPES), help="Evaluate it with embedding tables in this format.")
@memory_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(model: str | None, globs: tuple[str, ...], rows: RowType | None, memory: int | None, as_json: bool) -> None:
    """Print the metrics; the exit code does not depend on them."""
    config = load_config()
    found = saved_model(config, model)
    if not (globs or found.job.data.eval):
        raise UsageError("the job of this model has no `data.eval`; name the files with --data")
    files = input_files(globs or found.job.data.eval)
    found, result = _measure(config, model, found, lambda one: run(one, "evaluate", files, rows=rows, memory=memory))
    if as_json:
        print_json({
            "export": found.ref.export or None, "manifest": found.ref.url, "step": found.ref.manifest.step,
            "files": [file.url for file in files], "rows": rows or found.ref.rows, "metrics": result.metrics,
            "coverage": result.coverage, "tables_in_files": result.in_files,
        })  # fmt: skip
        return
    lines = [(name, f"{value:.6g}") for name, value in result.metrics.items()]
    lines += [(f"coverage of {name}", f"{share:.2%}") for name, share in result.coverage.items()]
    print_result(f"{found.ref.text}\n{table(('METRIC', 'VALUE'), lines)}")


#: Checkpoints that are tried: a job may remove each of them before it is read.
_TRIES = 5


def _measure(
    config: Config, named: str | None, found: SavedModel, measure: Callable[[SavedModel], list[OfflineResult]]
) -> tuple[SavedModel, OfflineResult]:
    """The result of the checkpoint, or of a newer one where a job that runs has removed it meanwhile."""
    for left in range(_TRIES - 1, -1, -1):
        try:
            [result] = measure(found)
            break
        except NotFound as error:
            newest = saved_model(config, named)
            if not left or newest.ref.url == found.ref.url or storage.exists(found.ref.url):
                raise
            say(f"{error}: the job keeps its newest checkpoints alone (`checkpoint.keep`), and the newest is taken")
            found = newest
    return found, result
