"""`afo completion`."""

import click
from click.shell_completion import get_completion_class

from afo.errors import AfoError
from afo_client.terminal.console import print_result


@click.command(help='Print the completion script of a shell: eval "$(afo completion bash)".')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that a shell evaluates."""
    kind = get_completion_class(shell)
    if kind is None:
        raise AfoError(f"click knows no completion for {shell}")
    print_result(kind(context.find_root().command, {}, "afo", "_AFO_COMPLETE").source())
