"""The `afo` command: finds the verb, and turns every error into words on stderr and an exit code."""

import difflib
import importlib
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence

import click

from afo import __version__
from afo.errors import AfoError, SpecError
from afo_client.cli.options import examples
from afo_client.terminal import standard_streams
from afo_client.terminal.console import print_json, say
from afo_client.terminal.standard_streams import OutputError

#: A verb: the module that holds it, and what it does. Modules are loaded when their verb is called.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("afo_client.cli.init", "Write a job file with comments, and a schema."),
    "submit": ("afo_client.cli.submit", "Start a training job and follow it."),
    "resubmit": ("afo_client.cli.resubmit", "Submit a job again, unchanged or with changes."),
    "validate": ("afo_client.cli.validate", "Check a job file and its inputs, and show what would run."),
    "ls": ("afo_client.cli.ls", "List jobs, running and finished."),
    "status": ("afo_client.cli.status", "Show a job and its tasks."),
    "wait": ("afo_client.cli.wait", "Wait until a job has ended."),
    "logs": ("afo_client.cli.logs", "Print or follow the logs of a job's tasks."),
    "events": ("afo_client.cli.events", "Print or follow the events of a job."),
    "explain": ("afo_client.cli.explain", "Explain why a job ended, or what a cause means, and what to do."),
    "queue": ("afo_client.cli.queue", "Show a job's queue and its free capacity."),
    "compare": ("afo_client.cli.compare", "Show two jobs side by side: settings, metrics, speed, cost."),
    "annotate": ("afo_client.cli.annotate", "Show and change a job's notes and tags."),
    "kill": ("afo_client.cli.kill", "End a job, or one of its tasks."),
    "scale": ("afo_client.cli.scale", "Change the number of workers of a live job."),
    "top": ("afo_client.cli.top", "Show what each task of a live job is doing."),
    "exec": ("afo_client.cli.exec", "Run a command beside a live task."),
    "profile": ("afo_client.cli.profile", "Take a TensorFlow profile of a live task."),
    "stacks": ("afo_client.cli.stacks", "Print the stack traces of a live task."),
    "tb": ("afo_client.cli.tb", "Show a job's summaries in TensorBoard."),
    "evaluate": ("afo_client.cli.evaluate", "Evaluate a saved model on files."),
    "predict": ("afo_client.cli.predict", "Score files with a saved model."),
    "export": ("afo_client.cli.export", "Export a checkpoint as a SavedModel."),
    "serve": ("afo_client.cli.serve", "Serve exported models by TensorFlow Serving's gRPC and REST interfaces."),
    "serving": ("afo_client.cli.serving", "Show model servers and their versions; promote and roll back."),
    "checkpoint": ("afo_client.cli.checkpoint", "List a job's checkpoints, or write one now."),
    "check": ("afo_client.cli.check", "Verify that each record was trained on once per epoch."),
    "lineage": ("afo_client.cli.lineage", "Show the training files of a model, through all warm starts."),
    "history": ("afo_client.cli.history", "Show jobs in a browser."),
    "data": ("afo_client.cli.data", "Generate, convert and inspect training data."),
    "demo": ("afo_client.cli.demo", "Train on generated clicks here, and compare with the best reachable."),
    "cluster": ("afo_client.cli.cluster", "Start and stop a Hadoop cluster on this machine."),
    "env": ("afo_client.cli.env", "Pack the Python environment of a job's containers."),
    "doctor": ("afo_client.cli.doctor", "Check this machine and the cluster."),
    "config": ("afo_client.cli.config", "Show the effective configuration and its origins."),
    "completion": ("afo_client.cli.completion", "Print the completion script of a shell."),
    "version": ("afo_client.cli.version", "Print versions."),
}
_ERROR = click.style("error: ", fg="red", bold=True)
#: What Python makes of a byte of a name that is not of the locale's encoding.
_UNDECODED = re.compile("[\ud800-\udfff]")
_NO_UTF8 = "this name or argument is not in the encoding of the locale; rename the file, or set LC_ALL=C.UTF-8"
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM


class LazyGroup(click.Group):
    """A group whose verbs are imported when they are called, so that `afo --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(VERBS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{VERBS[cmd_name][0]}.command is no click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean `afo {near[0]}`?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in VERBS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "afo submit job.yaml        # start a job and follow it",
        "afo status                 # the job submitted last",
        "afo logs worker:0 -f",
        "afo kill",
    ),
)
@click.version_option(__version__, prog_name="afo")
def afo() -> None:
    """Train sparse click-through models on YARN, or on this machine.

    Results go to stdout, messages to stderr. Exit codes: 0 done, 1 job failed, 2 wrong usage, 3 wrong job file or data,
    4 no permission, 5 not found, 6 cluster unreachable, 7 waited too long, 8 job killed, 70 a bug in afo,
    74 output not written, 130 interrupted, 141 nobody reads the output, 143 terminated.
    """


def main() -> None:
    """Entry point of the `afo` command."""
    standard_streams.set_up()
    # In order: what a command has begun is undone, and no process of its is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    try:
        code = run(sys.argv[1:])
    except OutputError as error:
        if str(error):
            say(str(error), head=_ERROR)
        code = error.code
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command line, return its exit code."""
    try:
        result = afo.main(args=list(arguments), prog_name="afo", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except AfoError as error:
        return _report_failure(str(error), error.exit_code, arguments)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return EXIT_INTERRUPTED
    except UnicodeEncodeError as error:
        if not _UNDECODED.search(error.object):
            return _report_failure(_crash_report(arguments), EXIT_INTERNAL, arguments)
        return _report_failure(f"{error.object!r}: {_NO_UTF8}", SpecError.exit_code, arguments)
    except Exception:
        return _report_failure(_crash_report(arguments), EXIT_INTERNAL, arguments)


def _report_failure(message: str, code: int, arguments: Sequence[str]) -> int:
    say(message, head=_ERROR)
    if "--json" in arguments:
        print_json({"error": {"message": message, "exit_code": code}})
    return code


def _crash_report(arguments: Sequence[str]) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="afo-crash-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"afo {__version__}, Python {sys.version}\n{list(arguments)[:1]}\n\n{traceback.format_exc()}")
    kind, value, _ = sys.exc_info()
    name = kind.__name__ if kind else "error"
    return f"a bug in afo: {name}: {value}; please report it with the file {file.name}"
