"""The end of a command that followed a job: summary to stderr, with --json one object to stdout, and the exit code."""

from afo.site.config import Config
from afo.site.user_state import UserState
from afo_client.jobs.follow import EXIT_OF
from afo_client.jobs.ref import JobRef
from afo_client.jobs.summary import places, summary_json, summary_text
from afo_client.jobs.view import JobView
from afo_client.terminal.console import print_json, say


def conclude(config: Config, ref: JobRef, view: JobView, *, as_json: bool) -> int:
    """Say how the ended job `view` ended; returns the exit code of the command."""
    UserState(config.state_dir).forget_secret(ref.job_id)
    code, where = EXIT_OF[view.state], places(ref)
    say(summary_text(view, where))
    if as_json:
        print_json(summary_json(view, where, code))
    return code
