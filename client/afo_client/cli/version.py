"""`afo version`."""

import click

from afo_client.doctor.versions import versions
from afo_client.terminal.console import print_json, print_result


@click.command(help="Print versions.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    """Print versions of afo and of what it stands on."""
    found = versions()
    if as_json:
        print_json({"versions": found})
    else:
        print_result("\n".join(f"{name} {version}" for name, version in found.items()))
