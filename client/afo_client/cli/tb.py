"""`afo tb`."""

import os
import sys
import time
from pathlib import Path

import click

from afo.process.scratch import scratch_folder
from afo.site.config import Config, load_config
from afo.tensorboard.process import TensorBoard, tensorboard
from afo.tensorboard.summary_folder import SummaryFolder
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.ref import JobRef, find_job
from afo_client.submission.submitted import submitted_config
from afo_client.terminal.console import print_result, say

#: Seconds between looks at what has grown, and whether TensorBoard lives.
_REFRESH_S = 15.0
_LOOK_S = 0.5


@click.command(
    help="Start TensorBoard over a job's summaries, print its address on stdout, and end it on Ctrl-C. The job's own "
    "interpreter runs it if that is on this machine, else afo's. Only the job's event files are "
    "copied here and kept up to date. JOB left out: the one submitted last.",
    epilog=examples("afo tb", "afo tb application_1700000000000_0001 --port 6006"),
)
@click.argument("job", required=False, type=JobType())
@click.option("--port", type=click.IntRange(1, 65535), help="Port; left out: any free one.")
def command(job: str | None, port: int | None) -> None:
    """Serve until Ctrl-C."""
    config = load_config()
    ref = find_job(config, job)
    with scratch_folder("afo-tb-") as scratch:
        folder = SummaryFolder(ref.paths.summaries, Path(scratch))
        folder.refresh()
        with tensorboard(_interpreter(config, ref), folder.path, port) as board:
            board.await_listening()
            try:  # whoever reads the address may press Ctrl-C at once
                print_result(board.address)
                sys.stdout.flush()
                say(f"TensorBoard over {ref.paths.summaries}; Ctrl-C ends it")
                _serve(board, folder)
            except KeyboardInterrupt:
                say("ending TensorBoard")


def _serve(board: TensorBoard, folder: SummaryFolder) -> None:
    refreshed = time.monotonic()
    while True:
        time.sleep(_LOOK_S)
        board.check()
        if time.monotonic() - refreshed > _REFRESH_S:
            folder.refresh()
            refreshed = time.monotonic()


def _interpreter(config: Config, ref: JobRef) -> str:
    submitted = submitted_config(config, ref)
    python = submitted.job.environment.python if submitted else ""
    return python if Path(python).is_file() and os.access(python, os.X_OK) else sys.executable
